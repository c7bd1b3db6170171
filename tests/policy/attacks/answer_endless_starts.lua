-- start workers for ever
function schedule(context)
  return { action = "start_worker", start_worker = { model_ref = "llama-7b", pool_id = context.pools[1].id, gpu_id = 0 } }
end
