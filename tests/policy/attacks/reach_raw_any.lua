-- reach raw any
local function attempt(context)
  return rawget or rawset or rawequal or rawlen
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
