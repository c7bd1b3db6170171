-- catastrophic pattern in find
function schedule(context)
  string.find(('a'):rep(5000), ('a*'):rep(25) .. 'b')
  return { action = "wait" }
end
