-- The platform policy: what Headgate does when nobody has said otherwise, and the manual of the Lua contract.
-- version: 1.0.0
--
-- A policy defines schedule(context) and returns one answer. It is asked again with the effect of that answer applied to the
-- view, until it waits or its number or time is used up. All it keeps in locals lasts one such cycle. Everything it sees is
-- read-only; times are milliseconds; ids are strings; a missing value is nil.
--
-- context.queue     ready jobs, in order of class, rank (higher first), submission. Each job:
--                   id name type priority class rank tenant units resources model_ref seed max_tokens labels attributes
--                   created_at queued_at wait_ms attempt estimated_vram estimated_duration_ms pool requires external handler
-- context.groups    the same jobs by what matters for placement, in the order of their heads. Each group:
--                   class tenant model_ref units resources count head jobs
-- context.pools     id status heartbeat_age_ms workers gpus cached_models labels; each of gpus:
--                   id name vram_total vram_allocated vram_free utilization pool_id
-- context.workers   all workers, also found in their pools. Each worker:
--                   id pool_id status model_ref slots slots_free vram_free resources_free gpu_ids labels current_jobs
--                   jobs_completed last_used_at types handlers; each of current_jobs:
--                   id class tenant units resources started_at ends_at running_ms checkpointable stopping
-- context.tenants   id weight share quotas usage quota_vram quota_used
-- context.metrics   queue_depth queue_depth_by_class total_workers ready_workers busy_workers busy_rating usable_units
--                   leased_units free_units avg_wait_ms jobs_completed_last_minute vram_total vram_allocated vram_free
-- context.catalog   models (by name: ref vram load_ms aliases attributes), aliases (by name)
-- context.config    settings; this policy and the helpers read preemption, preempting_classes, preemptible_classes,
--                   default_duration_ms, duration_by_type, jobs_per_worker
-- context.now       the only clock
-- context.time      hour weekday
--
-- context.helpers   where a model is asked for, a job may be given instead: then only workers with room for it count, and those
--                   that hold another model are left alone; can_fit looks at room alone
--   workers   find_worker(model, pool) find_worker_least_loaded(model, pool) find_worker_most_vram_free(model, pool)
--             find_worker_round_robin(model, pool) find_workers(model, pool) filter_workers(test)
--   jobs      get_job(id) filter_jobs(test, limit) calculate_wait_time(job) estimate_duration(job) can_fit(job, worker)
--   pools     get_pool(id) find_pools_with_capacity(vram) pool_utilization(pool) find_gpus_with_vram(vram, pool)
--   models    resolve_model(name) get_model(name)
--   quota     check_quota(job) or check_quota(tenant, vram or {name = amount}) tenant_usage(tenant)
--   eviction  find_worker_to_evict_lru(pool, vram) find_worker_to_evict_lfu(pool, vram) should_evict(worker)
--   others    find_victims(job) timeline() average(list, field) starts_with(text, prefix) contains(text or list, what)
--
-- globals           platform.schedule(context) platform.get_source() log.debug/info/warn/error(...) metrics.emit(name, value)
--                   trace(step) KB MB GB (powers of 1000) KiB MiB GiB (of 1024), and the safe parts of string, table, math and
--                   the base library
--
-- answers           {action="dispatch", job_id=, worker_id=} (an external job needs no worker)  {action="wait", retry_after_ms=}
--                   {action="evict", evict_worker_id=}
--                   {action="start_worker", start_worker={model_ref=, pool_id=, gpu_id=}}
--                   {action="preempt", job_id=, victims={...}}  {action="batch", actions={...}}; any may carry a reason
--
-- What this one does, in order of preference:
--   1. classes strictly, then rank; between tenants the one with the smallest weighted share; then submission
--   2. the least loaded worker that holds the model and has room; quotas are hard
--   3. the first job that has to wait gets a reservation; others may jump ahead only if they do not delay it (EASY backfill)
--   4. a job of a preempting class (high) that fits nowhere preempts preemptible ones (low, background) where that makes room
--   5. workers are started for models that queued jobs want; the least recently used idle one nobody wants makes way

local BACKFILL_DEPTH = 50
local JOBS_PER_WORKER = 8

local shares -- tenant id -> its view; made once a cycle

-- Order -----------------------------------------------------------------------------------------------------------------------

local function share_of(context, tenant)
  if not shares then
    shares = {}
    for _, t in ipairs(context.tenants) do shares[t.id] = t end
  end
  local t = shares[tenant]
  return t and t.share or 0
end

-- Groups from `first` on that are equal in class and rank; the least served tenant first.
local function tier(context, groups, first, last, fair)
  local found, keys = {}, {}
  local head = groups[first]
  local class, rank = head.class, head.head.rank
  local n = 0
  for i = first, last do
    local group = groups[i]
    if group.class ~= class or group.head.rank ~= rank then break end
    n = n + 1
    found[n] = group
    keys[n] = fair and share_of(context, group.tenant) or 0
  end
  if fair then
    for i = 2, n do
      local group, key, j = found[i], keys[i], i - 1
      while j >= 1 and keys[j] > key do
        found[j + 1], keys[j + 1] = found[j], keys[j]
        j = j - 1
      end
      found[j + 1], keys[j + 1] = group, key
    end
  end
  return found, n
end

-- Reservation -----------------------------------------------------------------------------------------------------------------

local function by_end(a, b)
  if a.ends ~= b.ends then return a.ends < b.ends end
  return a.id < b.id
end

local function ends_of(jobs, found)
  for _, job in ipairs(jobs) do
    found[#found + 1] = { id = job.id, ends = job.ends_at or math.huge, units = job.units, resources = job.resources }
  end
  return found
end

-- When enough units will be free, and how many will be left over then.
local function reserve_units(context, job)
  local free, usable = context.metrics.free_units, context.metrics.usable_units
  if not free or free >= job.units then return nil end
  if job.units > usable then return false end
  local running = {}
  for _, worker in ipairs(context.workers) do ends_of(worker.current_jobs, running) end
  table.sort(running, by_end)
  for _, r in ipairs(running) do
    free = free + r.units
    if free >= job.units then return { at = r.ends, extra = free - job.units } end
  end
  return { at = math.huge, extra = 0 }
end

local function fits(resources, free, slots)
  if slots < (resources.slots or 1) then return false end
  for name, amount in pairs(resources) do
    if name ~= "slots" and amount > (free[name] or 0) then return false end
  end
  return true
end

-- When this worker will have room for the job, and what is left beside it then; nil if never.
local function room_at(worker, job)
  local free, slots = {}, worker.slots_free
  for name, amount in pairs(worker.resources_free) do free[name] = amount end
  local running = ends_of(worker.current_jobs, {})
  table.sort(running, by_end)
  local at = 0
  for i = 0, #running do
    local r = running[i]
    if r then
      at, slots = r.ends, slots + (r.resources.slots or 1)
      for name, amount in pairs(r.resources) do free[name] = (free[name] or 0) + amount end
    end
    if fits(job.resources, free, slots) then
      for name, amount in pairs(job.resources) do free[name] = (free[name] or 0) - amount end
      return at, free, slots - (job.resources.slots or 1)
    end
  end
  return nil
end

-- Could this worker run the job, were it empty? One that holds a model is left to those who want that model.
local function may_hold(context, worker, job)
  if worker.status ~= "ready" and worker.status ~= "busy" then return false end
  if job.pool and job.pool ~= worker.pool_id then return false end
  if job.handler and not worker.handlers then return false end
  if worker.types and job.type and not context.helpers.contains(worker.types, job.type) then return false end
  for name, value in pairs(job.requires) do
    if worker.labels[name] ~= value then return false end
  end
  local resolve = context.helpers.resolve_model
  return worker.model_ref == nil or resolve(worker.model_ref) == resolve(job.model_ref)
end

-- The earliest worker for the job. Where nobody knows when anything ends, every worker it could use is kept for it.
local function reserve_worker(context, job)
  local best
  for _, worker in ipairs(context.workers) do
    if may_hold(context, worker, job) then
      local at, free, slots = room_at(worker, job)
      if at and (not best or at < best.at) then best = { at = at, free = free, slots = slots, ids = {} } end
      if at and at == best.at then
        if at == math.huge or not next(best.ids) then best.ids[worker.id] = true end
      end
    end
  end
  return best
end

-- What the first waiting job may count on; nil when nothing that runs now stands in its way.
local function reserve(context, job)
  local units = reserve_units(context, job)
  if units == false then return nil end
  local worker = not job.external and reserve_worker(context, job) or nil
  if not worker and not job.external then return nil end
  return { units = units, worker = worker }
end

-- Does this job, put there now, leave the reserved start as it is?
local function is_harmless(context, job, worker, reservation)
  local duration = context.helpers.estimate_duration(job)
  local ends = duration and context.now + duration or math.huge
  local units, kept = reservation.units, reservation.worker
  if units and not (ends <= units.at and units.at ~= math.huge) and job.units > units.extra then return false end
  if not worker or not kept or not kept.ids[worker.id] then return true end
  if kept.at ~= math.huge and ends <= kept.at then return true end
  return kept.at ~= math.huge and fits(job.resources, kept.free, kept.slots)
end

-- Placement -------------------------------------------------------------------------------------------------------------------

local function dispatch(job, worker, reason)
  return { action = "dispatch", job_id = job.id, worker_id = worker.id, reason = reason }
end

-- A job further down the same group that is short enough to slip in.
local function backfill(context, group, worker, reservation)
  local jobs = group.jobs
  for i = 1, math.min(#jobs, BACKFILL_DEPTH) do
    local job = jobs[i]
    if is_harmless(context, job, worker, reservation) and context.helpers.can_fit(job, worker) then
      return dispatch(job, worker, "backfill: ends before the reserved start")
    end
  end
  return nil
end

local function preempt(context, job)
  if context.config.preemption == false then return nil end
  local victims = context.helpers.find_victims(job)
  if not victims then return nil end
  return { action = "preempt", job_id = job.id, victims = victims, reason = "a " .. job.class .. " job fits nowhere else" }
end

-- Somebody waits ahead of this group. The reservation is made only now, when there is a place to quarrel about.
local function behind(context, group, worker, state)
  if not state.asked then
    state.asked, state.reservation = true, reserve(context, state.first)
  end
  if not state.reservation then return dispatch(group.head, worker) end
  return backfill(context, group, worker, state.reservation)
end

-- A job that its submitter runs himself takes units but no worker.
local function external(context, job, state)
  local free = context.metrics.free_units
  if free and job.units > free then
    state.first = state.first or job
    return nil
  end
  if state.first and not state.asked then
    state.asked, state.reservation = true, reserve(context, state.first)
  end
  if state.reservation and not is_harmless(context, job, nil, state.reservation) then return nil end
  return { action = "dispatch", job_id = job.id }
end

local function place(context, group, state)
  local helpers, job = context.helpers, group.head
  if not helpers.check_quota(job) then return nil end
  if job.external then return external(context, job, state) end
  local worker = helpers.find_worker_least_loaded(job)
  if worker and helpers.can_fit(job, worker) then
    if not state.first then return dispatch(job, worker) end
    return behind(context, group, worker, state)
  end
  if not state.first then
    state.first = job
    return preempt(context, job)
  end
  return nil
end

-- Workers for models ------------------------------------------------------------------------------------------------------------

local function workers_by_model(context)
  local count, resolve = {}, context.helpers.resolve_model
  for _, worker in ipairs(context.workers) do
    local status = worker.status
    if worker.model_ref and (status == "starting" or status == "ready" or status == "busy") then
      local ref = resolve(worker.model_ref)
      count[ref] = (count[ref] or 0) + 1
    end
  end
  return count
end

local function queued_by_model(context)
  local count, order, resolve = {}, {}, context.helpers.resolve_model
  for _, group in ipairs(context.groups) do
    local ref = group.model_ref and resolve(group.model_ref)
    if ref then
      if not count[ref] then order[#order + 1] = ref end
      count[ref] = (count[ref] or 0) + group.count
    end
  end
  return count, order
end

-- One worker of a model for each GPU is enough.
local function holds(context, pool, gpu, model)
  for _, worker in ipairs(pool.workers) do
    if context.helpers.resolve_model(worker.model_ref) == model.ref and context.helpers.contains(worker.gpu_ids, gpu.id) then
      return true
    end
  end
  return false
end

-- Where the model is cached it starts sooner.
local function best_gpu(context, model)
  local first
  for _, gpu in ipairs(context.helpers.find_gpus_with_vram(model.vram or 0)) do
    local pool = context.helpers.get_pool(gpu.pool_id)
    if pool and not holds(context, pool, gpu, model) then
      if context.helpers.contains(pool.cached_models, model.ref) then return gpu end
      first = first or gpu
    end
  end
  return first
end

local function make_way(context, model)
  local helpers = context.helpers
  local oldest
  for _, worker in ipairs(context.workers) do
    local held = worker.model_ref and helpers.get_model(worker.model_ref)
    local enough = not model.vram or (held and (held.vram or 0) + (worker.vram_free or 0) >= model.vram)
    if enough and helpers.should_evict(worker) and (not oldest or worker.last_used_at < oldest.last_used_at) then oldest = worker end
  end
  if not oldest then return nil end
  return { action = "evict", evict_worker_id = oldest.id, reason = "least recently used, and " .. model.ref .. " is wanted" }
end

local function prepare(context)
  if next(context.catalog.models) == nil then return nil end
  local queued, order = queued_by_model(context)
  if #order == 0 then return nil end
  local running, per_worker = workers_by_model(context), context.config.jobs_per_worker or JOBS_PER_WORKER
  for _, ref in ipairs(order) do
    local model, have = context.helpers.get_model(ref), running[ref] or 0
    if model and (have == 0 or queued[ref] > have * per_worker) then
      local gpu = best_gpu(context, model)
      if gpu then
        return { action = "start_worker", start_worker = { model_ref = ref, pool_id = gpu.pool_id, gpu_id = gpu.id },
          reason = queued[ref] .. " jobs want " .. ref }
      end
      local answer = have == 0 and make_way(context, model)
      if answer then return answer end
    end
  end
  return nil
end

-- The decision ------------------------------------------------------------------------------------------------------------------

function schedule(context)
  local groups, state = context.groups, {}
  local n, i, fair = #groups, 1, #context.tenants > 1
  while i <= n do
    local found, size = tier(context, groups, i, n, fair)
    for j = 1, size do
      local answer = place(context, found[j], state)
      if answer then return answer end
    end
    i = i + size
  end
  local answer = prepare(context)
  if answer then return answer end
  if n == 0 then return { action = "wait", reason = "the queue is empty" } end
  return { action = "wait", reason = state.first and "no room for " .. state.first.id or "quotas are used up" }
end
