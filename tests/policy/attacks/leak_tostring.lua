-- leak an address or the process through tostring
local function attempt(context)
  for _, v in ipairs({ {}, print or type, context.queue, context.queue[1], function() end }) do if tostring(v):find('0x') or tostring(v):find('%d%d%d') then return true end end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
