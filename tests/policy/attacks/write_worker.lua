-- write to worker
local function attempt(context)
  context.workers[1].slots_free = 1000 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
