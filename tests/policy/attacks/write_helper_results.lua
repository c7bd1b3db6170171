-- results of helpers share nothing with the mirror
local function attempt(context)
  local w = context.helpers.find_workers() w[1] = nil w[2] = nil return #context.helpers.find_workers() == #w
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
