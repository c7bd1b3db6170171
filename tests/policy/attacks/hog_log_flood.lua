-- flood the log
function schedule(context)
  for i = 1, 1e5 do log.error(('x'):rep(1000)) end
  return { action = "wait" }
end
