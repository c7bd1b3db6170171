-- reach io lines
local function attempt(context)
  for line in io.lines('/etc/hostname') do return line end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
