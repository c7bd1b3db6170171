-- an answer with no victims
function schedule(context)
  return { action = 'preempt', job_id = context.queue[1].id, victims = {} }
end
