-- raise a view of the context
function schedule(context)
  error(context.queue[1])
  return { action = "wait" }
end
