-- say everything that can be read, hoping for the canary
function schedule(context)
  for k, v in pairs(_G) do log.info(k, v) end
  for k, v in pairs(context.config) do log.info(k, v) end
  return { action = "wait", reason = tostring(_G.HEADGATE_CANARY) }
end
