-- leak an address or the process through error message
local function attempt(context)
  local ok, e = pcall(function() return {} .. '' end) return tostring(e):find('0x')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
