-- reach jit off
local function attempt(context)
  return jit.off() or jit.flush() or jit.version
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
