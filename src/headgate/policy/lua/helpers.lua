-- Every call of `context.helpers`. Answers come from the mirror and follow the effects of earlier answers in the same cycle.
-- All of them are total: an unknown id gives nil (or false and a reason), never an error; ties go to the smaller id.
local hg = ...
local views, mirror, fleet, queue = hg.views, hg.mirror, hg.fleet, hg.queue
local M = {}
hg.helpers = M

local columns_of = function() return mirror.columns, mirror.inner end
local hidden, is_record = views.hidden, views.is_record
local accepting, resolve = fleet.accepting, fleet.resolve
local sort, floor = table.sort, math.floor

-- A job may be given as a view or as an id; nil when it is not in the queue.
local function slot_for(job)
  if type(job) == "string" then return mirror.slot_of[job] end
  local slot = is_record(job) and hidden(job)
  if type(slot) == "number" and slot > 0 then return slot end
  return nil
end
M.slot_for = slot_for
local function worker_for(worker)
  if type(worker) == "string" then return fleet.by_worker[worker] end
  return is_record(worker) and fleet.by_worker[worker.id or false] or nil
end
M.worker_for = worker_for
local function pool_for(pool)
  if type(pool) == "string" then return fleet.by_pool[pool] end
  return is_record(pool) and fleet.by_pool[pool.id or false] or nil
end

-- Fit -----------------------------------------------------------------------------------------------------------------------

local function lacks_one(shape, rec, i)
  local name = shape.names[i]
  local free = rec.free[name] or 0
  if name == "slots" then free = rec.public.slots_free end
  return shape.values[i] > free and name or nil
end
local function lacks_further(shape, rec)
  for i = 3, shape.n do
    local name = lacks_one(shape, rec, i)
    if name then return name end
  end
  return nil
end
-- Unrolled for the usual one or two resources: a short inner loop would keep the search around it from being compiled.
local function lacks(shape, rec)
  local n = shape.n
  if n == 0 then return nil end
  local name = lacks_one(shape, rec, 1)
  if name or n == 1 then return name end
  name = lacks_one(shape, rec, 2)
  if name or n == 2 then return name end
  return lacks_further(shape, rec)
end

-- What waiting does not help with: handlers, pool, labels.
local function suits_not(slot, rec)
  local columns, inner = mirror.columns, mirror.inner
  local kind, pool, requires = columns.type[slot], columns.pool[slot], inner.raw_requires[slot]
  if rec.types and kind and not rec.types[kind] then return "worker has no handler for " .. kind end
  if pool and pool ~= rec.public.pool_id then return "job wants pool " .. pool end
  if requires ~= "\128" then
    local wanted, missing = hidden(mirror.nested(requires)), nil
    for name, value in next, wanted do
      if rec.public.labels[name] ~= value and (not missing or name < missing) then missing = name end
    end
    if missing then return "job requires label " .. missing .. "=" .. wanted[missing] end
  end
  return nil
end

-- Room on the worker alone. A model that is already loaded needs no VRAM of its own; which model it is, is a matter of choice.
local function room(slot, rec)
  local public = rec.public
  if public.status ~= "ready" and public.status ~= "busy" then return false, "worker is " .. (public.status or "gone") end
  if public.slots_free < 1 then return false, "no free slot" end
  local why = suits_not(slot, rec)
  if why then return false, why end
  local name = lacks(mirror.inner.shape[slot], rec)
  if name then return false, "not enough " .. name end
  local vram = mirror.columns.estimated_vram[slot]
  if vram and public.model_ref == nil and public.vram_free and vram > public.vram_free then return false, "not enough vram" end
  return true
end
M.room, M.suits_not = room, suits_not

local function units_left(slot)
  local free = fleet.free_units()
  return not free or mirror.columns.units[slot] <= free
end
M.units_left = units_left

function M.can_fit(job, worker)
  local slot, rec = slot_for(job), worker_for(worker)
  if not slot then return false, "job is not in the queue" end
  if not rec then return false, "no such worker" end
  local ok, why = room(slot, rec)
  if not ok then return false, why end
  if not units_left(slot) then return false, "not enough units" end
  return true, nil
end

-- Selection of workers --------------------------------------------------------------------------------------------------------
-- Each takes a model name or a job, and optionally a pool. A model is looked for where it is loaded, then where none is. A job
-- counts only workers with room for it; one without a model leaves workers with a model to those who want it. Nothing: any worker.

local function eligible(rec, slot, pool_id)
  return (not pool_id or rec.public.pool_id == pool_id) and (not slot or room(slot, rec))
end

local function best_of(set, slot, pool_id, better)
  local best
  for i = 1, #set do
    local rec = set[i]
    if eligible(rec, slot, pool_id) and (not best or better(rec, best)) then best = rec end
  end
  return best
end

-- The sets to look at, in order: one or two of them.
local function sets_for(what)
  if what == nil then return fleet.accepting_any(), nil, nil end
  if not is_record(what) then return accepting(what), fleet.accepting_without_model(), nil end
  local slot = slot_for(what)
  if not slot then return nil, nil, nil end
  local model = mirror.columns.model_ref[slot]
  if not model then return fleet.accepting_without_model(), nil, slot end
  return accepting(model), fleet.accepting_without_model(), slot
end

local function search(what, pool, better)
  local first, second, slot = sets_for(what)
  if not first then return nil end
  local pool_id = is_record(pool) and pool.id or pool
  local best = best_of(first, slot, pool_id, better) or (second and best_of(second, slot, pool_id, better))
  return best and best.view or nil
end

local function smaller_id(a, b) return a.id < b.id end
local function less_loaded(a, b)
  local x, y = a.public.slots_free / a.public.slots, b.public.slots_free / b.public.slots
  if x ~= y then return x > y end
  return a.id < b.id
end
local function more_vram(a, b)
  local x, y = a.public.vram_free or 0, b.public.vram_free or 0
  if x ~= y then return x > y end
  return a.id < b.id
end
-- Round robin without a memory of its own: whoever was used longest ago is next, which replays exactly.
local function used_earlier(a, b)
  local x, y = a.tick or 0, b.tick or 0
  if x ~= y then return x < y end
  x, y = a.public.last_used_at or 0, b.public.last_used_at or 0
  if x ~= y then return x < y end
  return a.id < b.id
end

function M.find_worker(model_ref, pool_id) return search(model_ref, pool_id, smaller_id) end
function M.find_worker_least_loaded(model_ref, pool_id) return search(model_ref, pool_id, less_loaded) end
function M.find_worker_most_vram_free(model_ref, pool_id) return search(model_ref, pool_id, more_vram) end
function M.find_worker_round_robin(model_ref, pool_id) return search(model_ref, pool_id, used_earlier) end

function M.find_workers(model_ref, pool)
  local first, second, slot = sets_for(model_ref)
  local pool_id = is_record(pool) and pool.id or pool
  local found, shown = {}, {}
  for _, set in ipairs({ first or {}, second or {} }) do
    for _, rec in ipairs(set) do
      if eligible(rec, slot, pool_id) then found[#found + 1] = rec end
    end
  end
  sort(found, smaller_id)
  for i = 1, #found do shown[i] = found[i].view end
  return shown
end

function M.filter_workers(test)
  local shown = {}
  for _, rec in ipairs(fleet.workers()) do
    if test(rec.view) then shown[#shown + 1] = rec.view end
  end
  return shown
end

-- Jobs ------------------------------------------------------------------------------------------------------------------------

function M.get_job(id)
  local slot = mirror.slot_of[id]
  return slot and mirror.job_view(slot) or nil
end

function M.filter_jobs(test, limit)
  local found, list, most = {}, mirror.queue, limit or 1 / 0
  for i = 1, #list do
    if #found >= most then break end
    local job = list[i]
    if test(job) then found[#found + 1] = job end
  end
  return found
end

function M.calculate_wait_time(job)
  local slot = slot_for(job)
  return slot and mirror.job_view(slot).wait_ms or nil
end

-- The job's own estimate, else the configured one for its type, else the configured default, else nil.
function M.estimate_duration(job)
  local slot = slot_for(job)
  if not slot then return nil end
  local columns = columns_of()
  local by_type = fleet.config.duration_by_type
  return columns.estimated_duration_ms[slot] or (by_type and by_type[columns.type[slot] or ""])
    or fleet.config.default_duration_ms or nil
end

-- Pools and GPUs --------------------------------------------------------------------------------------------------------------

function M.get_pool(id)
  local pool = fleet.by_pool[id]
  return pool and pool.view or nil
end

local function pool_lives(pool) return pool.public.status == "online" end

local function has_capacity(pool, vram)
  for _, gpu in ipairs(pool.gpus) do
    if gpu.vram_free >= vram and vram > 0 then return true end
  end
  if vram > 0 then return false end
  for _, rec in next, pool.members do
    if rec.indexed then return true end
  end
  return false
end

-- Living pools with a GPU that has this much VRAM free; without an amount, with a worker that accepts work.
function M.find_pools_with_capacity(vram)
  local found = {}
  for _, pool in ipairs(fleet.pools()) do
    if pool_lives(pool) and has_capacity(pool, vram or 0) then found[#found + 1] = pool.view end
  end
  return found
end

-- Share of the pool's slots in use, 0 to 1; nil for an unknown pool, 0 for an empty one.
function M.pool_utilization(pool)
  local rec = pool_for(pool)
  if not rec then return nil end
  local slots, free = 0, 0
  for _, worker in next, rec.members do
    slots, free = slots + (worker.public.slots or 0), free + (worker.public.slots_free or 0)
  end
  if slots == 0 then return 0 end
  return (slots - free) / slots
end

-- GPUs of living pools with this much VRAM free, most free first; each knows its `pool_id`.
function M.find_gpus_with_vram(vram, pool_id)
  local found, shown = {}, {}
  for _, pool in ipairs(fleet.pools()) do
    if pool_lives(pool) and (not pool_id or pool.id == pool_id) then
      for i, gpu in ipairs(pool.gpus) do
        if gpu.vram_free >= vram then found[#found + 1] = { free = gpu.vram_free, order = #found, view = pool.gpu_views[i] } end
      end
    end
  end
  sort(found, function(a, b)
    if a.free ~= b.free then return a.free > b.free end
    return a.order < b.order
  end)
  for i = 1, #found do shown[i] = found[i].view end
  return shown
end

-- Models ----------------------------------------------------------------------------------------------------------------------

function M.resolve_model(name) return resolve(name) end
function M.get_model(name)
  local rec = fleet.by_model[resolve(name) or false]
  return rec and rec.view or nil
end

-- Tenants ---------------------------------------------------------------------------------------------------------------------

local function over(tenant, name, amount)
  local quota = tenant.quotas[name]
  if quota and (tenant.usage[name] or 0) + amount > quota then return "quota for " .. name .. " is used up" end
  return nil
end

local function over_for_job(tenant, slot)
  local columns, inner = columns_of()
  local why = over(tenant, "jobs", 1) or over(tenant, "units", columns.units[slot])
  if why then return why end
  local shape = inner.shape[slot]
  for i = 1, shape.n do
    why = over(tenant, shape.names[i], shape.values[i])
    if why then return why end
  end
  local vram = columns.estimated_vram[slot]
  return vram and not shape.amounts.vram and over(tenant, "vram", vram) or nil
end

-- check_quota(job), check_quota(tenant_id, vram) or check_quota(tenant_id, {units = 2, vram = 8 * GB}): true, or false and why.
function M.check_quota(who, need)
  local slot = is_record(who) and slot_for(who) or nil
  local id = slot and mirror.columns.tenant[slot] or (is_record(who) and who.id) or who
  local tenant = fleet.by_tenant[id or false]
  if not tenant then return true, nil end
  local why
  if slot then
    why = over_for_job(tenant, slot)
  elseif type(need) == "table" then
    local names = {}
    for name, amount in next, is_record(need) and hidden(need) or need do
      if type(name) == "string" and type(amount) == "number" then names[#names + 1] = name end
    end
    sort(names)
    for _, name in ipairs(names) do why = why or over(tenant, name, need[name]) end
  elseif type(need) == "number" then
    why = over(tenant, "vram", need)
  end
  if why then return false, why end
  return true, nil
end

function M.tenant_usage(id)
  local tenant = fleet.by_tenant[is_record(id) and id.id or id or false]
  return tenant and tenant.public.usage or nil
end

-- Eviction --------------------------------------------------------------------------------------------------------------------

local function is_idle(rec) return rec.public.status == "ready" and #rec.running == 0 end

local function to_evict(pool_id, vram, earlier)
  local best
  for _, rec in ipairs(fleet.workers()) do
    local held = rec.public.vram_free or 0
    if is_idle(rec) and (not pool_id or rec.public.pool_id == pool_id) and (not vram or hg.helpers.held_vram(rec) + held >= vram)
      and (not best or earlier(rec, best)) then best = rec end
  end
  return best and best.view or nil
end
-- What a worker's model holds, as far as the catalogue knows.
function M.held_vram(rec)
  local model = fleet.by_model[resolve(rec.public.model_ref) or false]
  return model and model.public.vram or 0
end
local function lru(a, b)
  local x, y = a.public.last_used_at or 0, b.public.last_used_at or 0
  if x ~= y then return x < y end
  return a.id < b.id
end
local function lfu(a, b)
  local x, y = a.public.jobs_completed or 0, b.public.jobs_completed or 0
  if x ~= y then return x < y end
  return lru(a, b)
end
-- The idle worker used longest ago (or least often), optionally in one pool and with at least this much VRAM to give back.
function M.find_worker_to_evict_lru(pool_id, vram) return to_evict(pool_id, vram, lru) end
function M.find_worker_to_evict_lfu(pool_id, vram) return to_evict(pool_id, vram, lfu) end

-- True when the worker is idle and no queued job wants its model; else false and why.
function M.should_evict(worker)
  local rec = worker_for(worker)
  if not rec then return false, "no such worker" end
  if not is_idle(rec) then return false, "worker is not idle" end
  local model = resolve(rec.public.model_ref)
  local groups, n = mirror.sorted_groups()
  for i = 1, n do
    if resolve(groups[i].public.model_ref) == model then return false, "queued jobs want its model" end
  end
  return true, nil
end

-- Small things ----------------------------------------------------------------------------------------------------------------

-- Mean of a list of numbers, or of one field of a list of records; nil for an empty list.
function M.average(items, field)
  local sum, n = 0, 0
  for i = 1, #items do
    local value = items[i]
    if field then value = value[field] end
    if type(value) == "number" then sum, n = sum + value, n + 1 end
  end
  if n == 0 then return nil end
  return sum / n
end
function M.starts_with(text, prefix)
  return type(text) == "string" and type(prefix) == "string" and text:sub(1, #prefix) == prefix
end
-- A substring in a text (plain, no pattern), or a value in a list.
function M.contains(where, what)
  if type(where) == "string" then return type(what) == "string" and where:find(what, 1, true) ~= nil end
  if type(where) ~= "table" and not views.is_list(where) then return false end
  for i = 1, #where do
    if where[i] == what then return true end
  end
  return false
end

-- What a policy sees: the names of the contract, nothing that other files of the runtime share with this one.
local INTERNAL = { slot_for = true, worker_for = true, room = true, suits_not = true, units_left = true, held_vram = true, public = true }
function M.public()
  local shown = {}
  for name, f in next, M do
    if not INTERNAL[name] then shown[name] = f end
  end
  return shown
end
