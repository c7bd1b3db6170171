-- an answer with nul
function schedule(context)
  return { action = 'dispatch', job_id = 'job-1\0', worker_id = 'w-1\0' }
end
