-- reach python any
local function attempt(context)
  return python.eval('1') or python.builtins or python.as_attrgetter
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
