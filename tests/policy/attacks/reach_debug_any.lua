-- reach debug any
local function attempt(context)
  return debug.getinfo(1) or debug.sethook or debug
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
