-- EASY backfilling: first come, first served, but a job may jump ahead if the first in line is not delayed.
-- policy: easy-backfill
-- version: 1.0.0
--
-- The classic of large machines. It lives on estimates (estimated_duration_ms, ends_at): without them nothing jumps ahead of a job
-- that waits, except into room that the first in line does not need.

local timeline -- made when somebody has to wait; lasts one cycle
local rest, next_one -- who may jump ahead, and how far we are

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

-- The first in line gets a reservation: the earliest start if all that runs ends as predicted.
local function look_ahead(context)
  for i, job in ipairs(context.queue) do
    if context.helpers.check_quota(job) then
      local answer = start(context, job)
      if answer then return answer end
      timeline = context.helpers.timeline()
      if timeline.reserve(job) then return nil, i end
      timeline = nil -- it fits nowhere, now or later: it holds up nobody
    end
  end
  return nil, nil
end

local function behind(context, first)
  local jobs = {}
  for i = first + 1, #context.queue do jobs[#jobs + 1] = context.queue[i] end
  return jobs
end

local function backfill(context)
  local helpers, now = context.helpers, context.now
  while rest[next_one] do
    local job = rest[next_one]
    next_one = next_one + 1
    if helpers.check_quota(job) and start(context, job) then
      local at, worker_id = timeline.earliest(job)
      if at == now then
        timeline.reserve(job)
        return { action = "dispatch", job_id = job.id, worker_id = worker_id, reason = "backfill: delays nobody" }
      end
    end
  end
  return { action = "wait", reason = "the first in line has a reservation" }
end

function schedule(context)
  if rest then return backfill(context) end
  local answer, first = look_ahead(context)
  if answer then return answer end
  if not first then return { action = "wait", reason = "nobody waits who could start" } end
  rest, next_one = behind(context, first), 1
  return backfill(context)
end
