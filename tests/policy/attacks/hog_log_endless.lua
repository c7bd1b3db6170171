-- log for ever
function schedule(context)
  while true do log.info('x') end
  return { action = "wait" }
end
