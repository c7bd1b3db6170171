-- reach os clock
local function attempt(context)
  return os.clock() or os.time() or os.date()
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
