-- reach package loadlib
local function attempt(context)
  return package.loadlib('libc.so.6', 'system')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
