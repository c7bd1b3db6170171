-- an answer with nan id
function schedule(context)
  return { action = 'dispatch', job_id = 0 / 0, worker_id = 0 / 0 }
end
