-- write to running
local function attempt(context)
  context.workers[2].current_jobs[1].ends_at = 0 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
