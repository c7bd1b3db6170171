-- reach coroutine any
local function attempt(context)
  return coroutine.create(function() end)
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
