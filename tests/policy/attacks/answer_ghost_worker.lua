-- an answer with ghost worker
function schedule(context)
  return { action = 'dispatch', job_id = context.queue[1].id, worker_id = 'ghost' }
end
