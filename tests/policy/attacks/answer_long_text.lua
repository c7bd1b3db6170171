-- an answer with long text
function schedule(context)
  return { action = 'wait', reason = ('x'):rep(100000) }
end
