-- reach os exit
local function attempt(context)
  os.exit(0) return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
