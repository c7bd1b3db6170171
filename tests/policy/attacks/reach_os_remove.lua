-- reach os remove
local function attempt(context)
  return os.remove('@CANARY@.victim')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
