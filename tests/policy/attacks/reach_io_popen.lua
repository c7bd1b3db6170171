-- reach io popen
local function attempt(context)
  return io.popen('cat /etc/hostname'):read('*a')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
