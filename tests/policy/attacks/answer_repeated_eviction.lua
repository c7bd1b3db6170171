-- the same worker evicted for ever
function schedule(context)
  return { action = "evict", evict_worker_id = context.workers[1].id }
end
