-- reach collect any
local function attempt(context)
  return collectgarbage('count') or gcinfo()
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
