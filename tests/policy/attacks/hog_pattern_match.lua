-- catastrophic pattern in match
function schedule(context)
  (('x'):rep(4000)):match(('.-'):rep(24) .. 'y')
  return { action = "wait" }
end
