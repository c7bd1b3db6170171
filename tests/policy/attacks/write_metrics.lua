-- write to metrics
local function attempt(context)
  context.metrics.free_units = 1e9 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
