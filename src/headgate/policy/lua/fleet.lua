-- The other half of the mirror: workers, pools, tenants, models, metrics and settings. Small, so plain records; the workers that
-- accept work are indexed by model, since that is what every decision asks for.
local hg = ...
local codec, views, mirror = hg.codec, hg.views, hg.mirror
local M = {}
hg.fleet = M

local freeze, window, list, relist, KEY = views.freeze, views.window, views.list, views.relist, views.KEY
local CLASSES, sort, remove = mirror.CLASSES, table.sort, table.remove
local read = codec.read
local function by_id(a, b) return a.id < b.id end

-- A collection in the order of ids, seen by the policy as a list that is rebuilt only after a change of membership.
local function collection()
  return { by_id = {}, items = {}, view = list({}), dirty = false }
end
local function refresh(c)
  if not c.dirty then return c.items end
  c.dirty = false
  local items, shown = {}, {}
  for _, rec in next, c.by_id do items[#items + 1] = rec end
  sort(items, by_id)
  for i = 1, #items do shown[i] = items[i].view end
  c.items = items
  relist(c.view, shown)
  return items
end
local function clear(t) for k in next, t do t[k] = nil end end
local function record(c, id)
  local rec = c.by_id[id]
  if rec then return rec, false end
  local public = {}
  rec = { id = id, public = public, view = window(public) }
  c.by_id[id], c.dirty = rec, true
  return rec, true
end

local workers, pools, tenants, models, aliases
local accepting, accepting_any

function M.reset()
  for _, c in next, { workers, pools, tenants, models } do
    for _, rec in next, c.by_id do clear(rec.public) end
  end
  workers, pools, tenants, models, aliases = collection(), collection(), collection(), collection(), {}
  accepting, accepting_any = {}, {}
  M.by_worker, M.by_pool, M.by_tenant, M.by_model = workers.by_id, pools.by_id, tenants.by_id, models.by_id
  M.metrics, M.config = {}, {}
  M.config_view, M.aliases = window(M.config), aliases
end

local function resolve(ref)
  if not ref then return nil end
  return aliases[ref] or ref
end
M.resolve = resolve

-- Workers that accept work --------------------------------------------------------------------------------------------------

local function leave(set, rec, at)
  local i, n = rec[at], #set
  local last = set[n]
  set[i] = last
  last[at] = i
  set[n] = nil
  rec[at] = nil
end

-- Keeps the index true after any change of status, slots or model. Its order is free: every search breaks ties by id.
function M.reindex(rec)
  local public = rec.public
  local open = (public.status == "ready" or public.status == "busy") and (public.slots_free or 0) > 0
  local model = open and (resolve(public.model_ref) or "") or nil
  if rec.indexed == model then return end
  if rec.indexed then
    leave(accepting[rec.indexed], rec, "in_model")
    leave(accepting_any, rec, "in_any")
  end
  rec.indexed = model
  if not model then return end
  local set = accepting[model]
  if not set then
    set = {}
    accepting[model] = set
  end
  set[#set + 1], rec.in_model = rec, #set + 1
  accepting_any[#accepting_any + 1], rec.in_any = rec, #accepting_any + 1
end

local NONE = {}
function M.accepting(ref) return accepting[resolve(ref)] or NONE end
function M.accepting_any() return accepting_any end
function M.accepting_without_model() return accepting[""] or NONE end
function M.workers() return refresh(workers) end
function M.worker_list() refresh(workers) return workers.view end
function M.pools() return refresh(pools) end
function M.pool_list() refresh(pools) return pools.view end
function M.tenants() return refresh(tenants) end
function M.tenant_list() refresh(tenants) return tenants.view end

-- Running jobs: what a reservation, an estimate or a preemption has to know.
local function read_job()
  codec.array_size()
  return { id = read(), class_index = read(), tenant = read(), units = read(), shape = mirror.shape_of(codec.raw()),
    started_at = read(), ends_at = read(), checkpointable = read(), stopping = read() }
end
local function read_running()
  local n = codec.array_size()
  local raw, shown = {}, {}
  for i = 1, n do
    local job = read_job()
    raw[i], shown[i] = job, M.running_view(job)
  end
  return raw, shown
end
local RUNNING_FIELDS = { "id", "class", "tenant", "units", "resources", "started_at", "ends_at", "running_ms", "checkpointable", "stopping" }
M.running_view = views.family("running job", RUNNING_FIELDS, function(v, k)
  local job = v[KEY]
  if k == "class" then return CLASSES[job.class_index] end
  if k == "resources" then return job.shape.view end
  if k == "running_ms" then return mirror.now > job.started_at and mirror.now - job.started_at or 0 end
  if k == "shape" or k == "class_index" then return nil end
  return job[k]
end)

local function pool_for(id)
  local pool, new = record(pools, id)
  if new then
    local p = pool.public
    p.id, p.status, p.workers, p.gpus, p.cached_models = id, "unknown", list({}), list({}), list({})
    p.labels = window({})
    pool.members, pool.gpus, pool.heartbeat_at = {}, {}, 0
    pool.view = M.pool_view(pool)
    for _, rec in next, workers.by_id do
      if rec.public.pool_id == id then rec.pool, pool.members[rec.id], pool.changed = pool, rec, true end
    end
  end
  return pool
end

-- A pool's own list of workers follows its members; its age follows the clock of the question.
local POOL_FIELDS = { "id", "status", "heartbeat_age_ms", "workers", "gpus", "cached_models", "labels" }
M.pool_view = views.family("pool", POOL_FIELDS, function(v, k)
  local pool = v[KEY]
  if k == "heartbeat_age_ms" then return mirror.now > pool.heartbeat_at and mirror.now - pool.heartbeat_at or 0 end
  if k == "workers" and pool.changed then
    local shown = {}
    for i, rec in ipairs(M.members(pool)) do shown[i] = rec.view end
    relist(pool.public.workers, shown)
    pool.changed = false
  end
  return pool.public[k]
end)
function M.members(pool)
  local members = {}
  for _, rec in next, pool.members do members[#members + 1] = rec end
  sort(members, by_id)
  return members
end
local function join(rec, pool_id)
  if rec.pool then rec.pool.members[rec.id], rec.pool.changed = nil, true end
  rec.pool = pool_for(pool_id)
  rec.pool.members[rec.id], rec.pool.changed = rec, true
end

-- Handlers that the worker has; none given: any type.
local function read_types(public)
  local types = read()
  public.types = types and list(types) or nil
  if not types then return nil end
  local set = {}
  for i = 1, #types do set[types[i]] = true end
  return set
end

function M.worker_set()
  local id, pool_id = read(), read()
  local rec = record(workers, id)
  local p = rec.public
  p.id, p.pool_id, p.status, p.model_ref = id, pool_id, read(), read()
  p.slots, p.slots_free, p.vram_free = read(), read(), read()
  rec.free = read()
  p.resources_free = window(rec.free)
  p.gpu_ids, p.labels = list(read()), freeze(read())
  rec.running, rec.shown = read_running()
  p.current_jobs = list(rec.shown)
  p.jobs_completed, p.last_used_at = read(), read()
  rec.types = read_types(p)
  p.handlers = read()
  if not rec.pool or rec.pool.id ~= pool_id then join(rec, pool_id) end
  M.reindex(rec)
end

function M.worker_changed()
  local rec = workers.by_id[read()]
  for _ = 1, codec.array_size() / 2 do
    local field, value = read(), read()
    if rec and field == "resources_free" then rec.free, rec.public.resources_free = value, window(value)
    elseif rec then rec.public[field] = value end
  end
  if rec then M.reindex(rec) end
end

local function place_of(rec, job_id)
  local running = rec.running
  for i = 1, #running do
    if running[i].id == job_id then return i end
  end
  return nil
end
function M.running_set()
  local rec, job = workers.by_id[read()], read_job()
  if not rec then return end
  local i = place_of(rec, job.id) or #rec.running + 1
  rec.running[i], rec.shown[i] = job, M.running_view(job)
end
function M.running_removed()
  local rec, id = workers.by_id[read()], read()
  local i = rec and place_of(rec, id)
  if not i then return end
  remove(rec.running, i)
  remove(rec.shown, i)
end

function M.worker_removed(id)
  local rec = workers.by_id[id]
  if not rec then return end
  rec.public.status = "offline"
  M.reindex(rec)
  if rec.pool then rec.pool.members[id], rec.pool.changed = nil, true end
  workers.by_id[id], workers.dirty = nil, true
  clear(rec.public)
end

-- A worker that an earlier answer of this cycle starts; returns what takes it away again.
function M.expect_worker(pool, model_ref, gpu_id)
  local n = 1
  while workers.by_id["starting-" .. n] do n = n + 1 end
  local rec = record(workers, "starting-" .. n)
  local p = rec.public
  p.id, p.pool_id, p.status, p.model_ref, p.slots, p.slots_free, p.vram_free = rec.id, pool.id, "starting", model_ref, 0, 0, 0
  p.resources_free, p.gpu_ids, p.labels, p.current_jobs = window({}), list({ gpu_id }), window({}), list({})
  p.jobs_completed, p.last_used_at, p.handlers = 0, 0, true
  rec.free, rec.running, rec.shown = {}, {}, {}
  join(rec, pool.id)
  return function() M.worker_removed(rec.id) end
end

local function read_gpus(pool)
  local n, shown = codec.array_size(), {}
  pool.gpus = {}
  for i = 1, n do
    codec.array_size()
    local g = { id = read(), name = read(), vram_total = read(), vram_allocated = read(), vram_free = read(),
      utilization = read(), pool_id = pool.id }
    pool.gpus[i], shown[i] = g, window(g)
  end
  pool.gpu_views = shown
  return list(shown)
end

function M.pool_set()
  local pool = pool_for(read())
  local p = pool.public
  p.status, pool.heartbeat_at = read(), read()
  p.gpus = read_gpus(pool)
  p.cached_models, p.labels = list(read()), freeze(read())
end

function M.pool_removed(id)
  local pool = pools.by_id[id]
  if not pool then return end
  pools.by_id[id], pools.dirty = nil, true
  for _, rec in next, pool.members do rec.pool = nil end
  clear(pool.public)
end

function M.tenant_set()
  local rec = record(tenants, read())
  local p = rec.public
  p.id, p.weight, p.share = rec.id, read(), read()
  rec.quotas, rec.usage = read(), read()
  p.quotas, p.usage = window(rec.quotas), window(rec.usage)
  p.quota_vram, p.quota_used = rec.quotas.vram, rec.usage.vram or 0
end
function M.tenant_removed(id)
  local rec = tenants.by_id[id]
  if not rec then return end
  tenants.by_id[id], tenants.dirty = nil, true
  clear(rec.public)
end

function M.model_set()
  local rec = record(models, read())
  local p = rec.public
  p.ref, p.vram, p.load_ms = rec.id, read(), read()
  for alias, ref in next, aliases do if ref == rec.id then aliases[alias] = nil end end
  local names = read()
  for _, alias in ipairs(names) do aliases[alias] = rec.id end
  p.aliases, p.attributes = list(names), freeze(read())
  for _, worker in next, workers.by_id do M.reindex(worker) end
end
function M.model_removed(id)
  local rec = models.by_id[id]
  if not rec then return end
  models.by_id[id], models.dirty = nil, true
  for alias, ref in next, aliases do if ref == id then aliases[alias] = nil end end
  clear(rec.public)
end

local function merge(into, values) for k, v in next, values do into[k] = v end end
function M.metrics_set() merge(M.metrics, read()) end
function M.config_set()
  for k, v in next, read() do M.config[k] = freeze(v) end
end

-- The catalogue: models by name, aliases by name.
local function names_of(t)
  local names = {}
  for name in next, t do names[#names + 1] = name end
  sort(names)
  return names
end
local function model_of(_, k)
  local rec = models.by_id[resolve(k)]
  return rec and rec.view
end
local function alias_of(_, k) return aliases[k] end
M.catalog = window({
  models = views.family("models", function() return names_of(models.by_id) end, model_of)({}),
  aliases = views.family("aliases", function() return names_of(aliases) end, alias_of)({}),
})

-- Metrics that the mirror knows better than any report (they follow the answers of this question), then reports.
local function count_workers(test)
  local n = 0
  for _, rec in next, workers.by_id do if test(rec.public) then n = n + 1 end end
  return n
end
local function sum_gpus(field)
  local n = 0
  for _, pool in next, pools.by_id do
    for _, g in ipairs(pool.gpus) do n = n + g[field] end
  end
  return n
end
local live = {
  queue_depth = function() return mirror.depth() end,
  queue_depth_by_class = function()
    local t = {}
    for c = 0, 3 do t[CLASSES[c]] = mirror.class_queues[c].count end
    return window(t)
  end,
  total_workers = function() return count_workers(function() return true end) end,
  ready_workers = function() return count_workers(function(w) return w.status == "ready" end) end,
  busy_workers = function() return count_workers(function(w) return w.status == "busy" end) end,
  free_units = function()
    local m = M.metrics
    if not m.usable_units then return nil end
    local free = m.usable_units - (m.leased_units or 0)
    return free > 0 and free or 0
  end,
  vram_total = function() return sum_gpus("vram_total") end,
  vram_allocated = function() return sum_gpus("vram_allocated") end,
  vram_free = function() return sum_gpus("vram_free") end,
}
M.METRIC_FIELDS = { "queue_depth", "queue_depth_by_class", "total_workers", "ready_workers", "busy_workers", "busy_rating",
  "usable_units", "leased_units", "free_units", "avg_wait_ms", "jobs_completed_last_minute", "vram_total", "vram_allocated", "vram_free" }
M.metrics_view = views.family("metrics", M.METRIC_FIELDS, function(_, k)
  local compute = live[k]
  if compute then return compute() end
  return M.metrics[k]
end)({})
M.free_units = live.free_units

M.reset()
