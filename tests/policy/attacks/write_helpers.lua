-- write to helpers
local function attempt(context)
  context.helpers.can_fit = function() return true end return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
