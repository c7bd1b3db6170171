-- reach bit any
local function attempt(context)
  return bit.band(1, 1) or bit
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
