-- reach setfenv helper
local function attempt(context)
  setfenv(context.helpers.find_worker, {}) return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
