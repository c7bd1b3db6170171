-- the same job twice in one answer
function schedule(context)
  local one = { action = "dispatch", job_id = context.queue[1].id, worker_id = context.workers[1].id }
  return { action = "batch", actions = { one, one } }
end
