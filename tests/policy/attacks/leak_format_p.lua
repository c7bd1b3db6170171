-- leak an address or the process through format p
local function attempt(context)
  return string.format('%p', {}) or ('%20p'):format({})
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
