-- reach io stdout
local function attempt(context)
  io.stdout:write('x') return io.stderr
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
