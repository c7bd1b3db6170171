-- an answer with nested view
function schedule(context)
  return { action = 'dispatch', job_id = context.queue[1], worker_id = context.workers[1] }
end
