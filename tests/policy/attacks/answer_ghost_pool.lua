-- an answer with ghost pool
function schedule(context)
  return { action = 'start_worker', start_worker = { model_ref = 'x', pool_id = 'ghost', gpu_id = 0 } }
end
