-- leak an address or the process through concat
local function attempt(context)
  local ok, e = pcall(function() return 'x' .. context.queue end) return ok
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
