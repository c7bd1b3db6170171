-- Backfill without a promise: every gap is filled with the largest job that fits, in order of class.
-- policy: backfill
-- version: 1.0.0
--
-- The platform policy fills gaps only where the first waiting job is not delayed. This one fills every gap at once, which keeps
-- machines busier; a large job may be overtaken, but at most for PATIENCE_MS: then everything waits for it.

local PATIENCE_MS = 10 * 60 * 1000

local function size(job)
  local total = job.units
  for _, amount in pairs(job.resources) do total = total + amount end
  return total
end

function schedule(context)
  local helpers = context.helpers
  local best, best_worker, best_size, class
  for _, group in ipairs(context.groups) do
    if class and group.class ~= class then break end
    local job = group.head
    local worker = helpers.check_quota(job) and helpers.find_worker_least_loaded(job)
    if worker and helpers.can_fit(job, worker) then
      if not best or size(job) > best_size then
        best, best_worker, best_size, class = job, worker, size(job), group.class
      end
    elseif job.wait_ms > PATIENCE_MS and not best then
      return platform.schedule(context)
    end
  end
  if best then
    return { action = "dispatch", job_id = best.id, worker_id = best_worker.id, reason = "largest that fits" }
  end
  return platform.schedule(context)
end
