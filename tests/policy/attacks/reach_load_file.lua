-- reach load file
local function attempt(context)
  return loadfile('/etc/hostname') or dofile('/etc/hostname')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
