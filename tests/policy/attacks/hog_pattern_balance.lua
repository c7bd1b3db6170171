-- quadratic balanced match
function schedule(context)
  (('('):rep(200000)):find('%b()')
  return { action = "wait" }
end
