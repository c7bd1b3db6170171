-- version: 1.0.0
function schedule(context)
  for _, group in ipairs(context.groups) do
    local job = group.head
    local worker = context.helpers.find_worker_least_loaded(job)
    if worker and context.helpers.can_fit(job, worker) then
      return { action = "dispatch", job_id = job.id, worker_id = worker.id }
    end
  end
  return { action = "wait" }
end
