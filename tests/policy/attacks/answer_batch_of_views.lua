-- an answer with batch of views
function schedule(context)
  return { action = 'batch', actions = context.queue }
end
