-- catastrophic pattern in gmatch
function schedule(context)
  for _ in (('x'):rep(4000)):gmatch(('.-'):rep(24) .. 'y') do end
  return { action = "wait" }
end
