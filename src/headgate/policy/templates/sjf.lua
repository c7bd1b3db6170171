-- Shortest job first: the job with the smallest estimated duration starts while it fits, and nothing overtakes it.
-- policy: sjf
-- version: 1.0.0
--
-- Without estimates this is first come, first served. A long job may wait for ever; shortest-job-first is the same idea with an end
-- to that, and without waiting for the shortest where another fits.

local order -- the jobs by estimate; made once a cycle

local function by_estimate(context)
  local jobs = {}
  for i, job in ipairs(context.queue) do
    jobs[i] = { job = job, length = context.helpers.estimate_duration(job) or math.huge, place = i }
  end
  table.sort(jobs, function(a, b)
    if a.length ~= b.length then return a.length < b.length end
    return a.place < b.place
  end)
  return jobs
end

local next_one = 1

-- The first whose tenant may start another: quotas fill up with every answer of the cycle.
local function shortest(context)
  while order[next_one] and not context.helpers.check_quota(order[next_one].job) do next_one = next_one + 1 end
  return order[next_one]
end

function schedule(context)
  order = order or by_estimate(context)
  local entry = shortest(context)
  if not entry then return { action = "wait", reason = "nobody waits who may start" } end
  local job, helpers = entry.job, context.helpers
  local worker = not job.external and helpers.find_worker_least_loaded(job) or nil
  local fits = worker and helpers.can_fit(job, worker)
  if job.external then fits = job.units <= (context.metrics.free_units or job.units) end
  if not fits then return { action = "wait", reason = "no room for " .. job.id .. ", the shortest" } end
  next_one = next_one + 1
  return { action = "dispatch", job_id = job.id, worker_id = worker and worker.id, reason = "the shortest" }
end
