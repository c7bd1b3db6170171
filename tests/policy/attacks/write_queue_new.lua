-- write to queue new
local function attempt(context)
  context.queue[#context.queue + 1] = {} return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
