-- First come, first served: the first job in line starts while it fits, and nothing overtakes it.
-- policy: fcfs
-- version: 1.0.0
--
-- The plainest of all: classes, then ranks, then submission. A large job holds up everybody behind it, so machines stand idle. Jobs
-- of a tenant whose quota is used up are passed over. See easy-backfill for the same order without the idle machines.

local function start(context, job)
  local helpers = context.helpers
  if job.external then
    local free = context.metrics.free_units
    return (not free or job.units <= free) and { action = "dispatch", job_id = job.id } or nil
  end
  local worker = helpers.find_worker_least_loaded(job)
  if not worker or not helpers.can_fit(job, worker) then return nil end
  return { action = "dispatch", job_id = job.id, worker_id = worker.id }
end

function schedule(context)
  for _, job in ipairs(context.queue) do
    if context.helpers.check_quota(job) then
      return start(context, job) or { action = "wait", reason = "no room for " .. job.id .. ", the first in line" }
    end
  end
  return { action = "wait", reason = "nobody waits who may start" }
end
