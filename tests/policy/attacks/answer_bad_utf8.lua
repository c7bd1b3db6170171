-- an answer with bad utf8
function schedule(context)
  return { action = 'dispatch', job_id = '\255\254', worker_id = '\128' }
end
