-- reach os rename
local function attempt(context)
  return os.rename('@CANARY@.victim', '@CANARY@')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
