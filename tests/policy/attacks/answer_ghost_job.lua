-- an answer with ghost job
function schedule(context)
  return { action = 'dispatch', job_id = 'ghost', worker_id = context.workers[1].id }
end
