-- reach debug upvalue
local function attempt(context)
  return debug.getupvalue(context.helpers.find_worker, 1)
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
