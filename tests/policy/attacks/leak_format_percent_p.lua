-- leak an address or the process through format percent p
local function attempt(context)
  return string.format('%%%p', {})
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
