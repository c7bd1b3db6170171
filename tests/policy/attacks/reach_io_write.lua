-- reach io write
local function attempt(context)
  local f = io.open('@CANARY@', 'w') f:write('x') f:close() return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
