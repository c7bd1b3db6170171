-- raise a very long text
function schedule(context)
  error(('x'):rep(1000000))
  return { action = "wait" }
end
