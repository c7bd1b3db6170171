-- leak an address or the process through format s
local function attempt(context)
  return ('%s'):format({}):find('0x') or string.format('%s', context.queue):find('0x')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
