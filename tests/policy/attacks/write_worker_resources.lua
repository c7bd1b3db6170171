-- write to worker resources
local function attempt(context)
  context.workers[1].resources_free.cpu = 1e9 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
