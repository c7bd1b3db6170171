-- Conservative backfilling: every job gets a reservation in order of arrival, and a job may jump ahead if it delays none of them.
-- policy: conservative
-- version: 1.0.0
--
-- Fairer to large jobs than easy-backfill, which protects the first in line alone; on most logs the average wait is a little longer.
-- Reservations are made anew in every cycle from what is known then, so an early end moves everybody up.

local DEPTH = 1000 -- jobs further behind wait until the line is shorter

local timeline
local next_one = 1

function schedule(context)
  timeline = timeline or context.helpers.timeline()
  local queue, now = context.queue, context.now
  while next_one <= DEPTH and queue[next_one] do
    local job = queue[next_one]
    local at, worker_id
    if context.helpers.check_quota(job) then at, worker_id = timeline.reserve(job) end
    if at == now then -- it leaves the queue, so the next one takes its place
      return { action = "dispatch", job_id = job.id, worker_id = worker_id, reason = "its reserved start has come" }
    end
    next_one = next_one + 1
  end
  return { action = "wait", reason = "everybody has a later reservation" }
end
