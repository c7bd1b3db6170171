-- Best fit: every job goes where it leaves the least room behind, so that large gaps stay whole for large jobs.
-- policy: best-fit
-- version: 1.0.0
--
-- Jobs are taken in order; one that fits nowhere is passed over. What is left over on a worker is measured as the largest share of
-- any of its free resources that would remain, so one scarce resource is not left stranded by another.

local function left_over(job, worker)
  local most = 0
  for name, free in pairs(worker.resources_free) do
    if free > 0 then most = math.max(most, (free - (job.resources[name] or 0)) / free) end
  end
  if most == 0 and worker.slots > 0 then most = (worker.slots_free - 1) / worker.slots end
  return most
end

local function best_worker(context, job)
  local best, least
  for _, worker in ipairs(context.helpers.find_workers(job)) do
    if context.helpers.can_fit(job, worker) then
      local left = left_over(job, worker)
      if not best or left < least then best, least = worker, left end
    end
  end
  return best
end

-- Jobs of one group need the same: where its head does not fit, nobody of it does.
function schedule(context)
  for _, group in ipairs(context.groups) do
    local job = group.head
    if context.helpers.check_quota(job) then
      if job.external then
        if job.units <= (context.metrics.free_units or job.units) then return { action = "dispatch", job_id = job.id } end
      else
        local worker = best_worker(context, job)
        if worker then return { action = "dispatch", job_id = job.id, worker_id = worker.id, reason = "best fit" } end
      end
    end
  end
  return { action = "wait", reason = "nobody fits anywhere" }
end
