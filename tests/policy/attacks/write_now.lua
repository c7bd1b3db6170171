-- write to now
local function attempt(context)
  context.now = 0 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
