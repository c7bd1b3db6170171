-- Fair share by tenant: the tenant with the smallest weighted share goes next, above all classes but high.
-- policy: fair-share
-- version: 1.0.0
--
-- High jobs keep their place. Among the others the class of a job decides only between jobs of the same tenant, so that a tenant
-- cannot get ahead of another by calling everything normal.

local function shares(context)
  local share = {}
  for _, tenant in ipairs(context.tenants) do share[tenant.id] = tenant.share or 0 end
  return share
end

local function place(context, group)
  local helpers, job = context.helpers, group.head
  if not helpers.check_quota(job) then return nil end
  local worker = helpers.find_worker_least_loaded(job)
  if worker and helpers.can_fit(job, worker) then
    return { action = "dispatch", job_id = job.id, worker_id = worker.id, reason = "least served tenant: " .. group.tenant }
  end
  return nil
end

function schedule(context)
  local share, order = shares(context), {}
  for i, group in ipairs(context.groups) do
    local key = group.class == "high" and -1 or share[group.tenant] or 0
    order[i] = { group = group, key = key, place = i }
  end
  table.sort(order, function(a, b)
    if a.key ~= b.key then return a.key < b.key end
    return a.place < b.place
  end)
  for _, entry in ipairs(order) do
    local answer = place(context, entry.group)
    if answer then return answer end
  end
  return platform.schedule(context)
end
