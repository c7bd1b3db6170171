-- leak an address or the process through tostring userdata
local function attempt(context)
  return tostring(context.queue):find('userdata')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
