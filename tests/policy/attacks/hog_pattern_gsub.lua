-- catastrophic pattern in gsub
function schedule(context)
  (('x'):rep(4000)):gsub(('.-'):rep(24) .. 'y', '')
  return { action = "wait" }
end
