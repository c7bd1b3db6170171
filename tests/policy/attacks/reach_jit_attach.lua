-- reach jit attach
local function attempt(context)
  return jit.attach(function() end, 'bc')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
