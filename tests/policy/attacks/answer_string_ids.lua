-- an answer with string ids
function schedule(context)
  return { action = 'dispatch', job_id = { 'x' }, worker_id = true }
end
