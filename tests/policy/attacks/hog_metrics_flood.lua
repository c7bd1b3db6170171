-- flood the metrics
function schedule(context)
  for i = 1, 1e5 do metrics.emit('m' .. i, i) end
  return { action = "wait" }
end
