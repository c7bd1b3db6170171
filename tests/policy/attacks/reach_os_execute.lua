-- reach os execute
local function attempt(context)
  return os.execute('touch @CANARY@')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
