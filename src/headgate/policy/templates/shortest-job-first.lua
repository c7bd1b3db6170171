-- Short jobs first: the smallest estimated duration among the first thousand jobs of the highest class goes next.
-- policy: shortest-job-first
-- version: 1.0.0
--
-- Good for many small jobs beside a few long ones: the average wait shrinks. Long jobs may wait long; a job that has waited for
-- MAX_WAIT_MS goes first, whatever its length. Jobs without an estimate come after those with one.

local DEPTH = 1000
local MAX_WAIT_MS = 30 * 60 * 1000

local function length(context, job)
  if job.wait_ms >= MAX_WAIT_MS then return -1 end
  return context.helpers.estimate_duration(job) or math.huge
end

local function shortest(context)
  local helpers = context.helpers
  local best, best_worker, best_length, class
  for i = 1, math.min(#context.queue, DEPTH) do
    local job = context.queue[i]
    if class and job.class ~= class then break end
    local ms = length(context, job)
    if not best or ms < best_length then
      local worker = helpers.check_quota(job) and helpers.find_worker_least_loaded(job)
      if worker and helpers.can_fit(job, worker) then
        best, best_worker, best_length, class = job, worker, ms, job.class
      end
    end
  end
  return best, best_worker
end

function schedule(context)
  local job, worker = shortest(context)
  if job then
    return { action = "dispatch", job_id = job.id, worker_id = worker.id, reason = "shortest that fits" }
  end
  return platform.schedule(context)
end
