-- Within one cycle the policy is asked again with the effect of its last answer applied. Everything here is borrowed: `undo`
-- restores the mirror exactly, since only the engine's deltas say what really happened.
local hg = ...
local mirror, fleet, fitting = hg.mirror, hg.fleet, hg.fitting
local M = {}
hg.effects = M

-- The journal: three columns that only grow, so that the many short cycles never resize a table.
local tables, fields, olds, n, tick = {}, {}, {}, 0, 0
local TAKEN, INDEX, CALL, ABSENT = {}, {}, {}, {}

local function note(what, field, old)
  n = n + 1
  tables[n] = what
  fields[n] = field
  olds[n] = old
end
local function set(t, field, value)
  local old = t[field]
  if old == nil then old = ABSENT end
  note(t, field, old)
  t[field] = value
end
local function reindex(rec)
  note(INDEX, rec, false)
  fleet.reindex(rec)
end
local function take(slot)
  note(TAKEN, slot, false)
  mirror.take(slot)
end

function M.undo()
  local touched = {}
  for i = n, 1, -1 do
    local t, field, old = tables[i], fields[i], olds[i]
    if t == TAKEN then mirror.put_back(field)
    elseif t == INDEX then touched[#touched + 1] = field
    elseif t == CALL then field()
    elseif old == ABSENT then t[field] = nil
    else t[field] = old end
    tables[i], fields[i], olds[i] = false, false, false
  end
  for i = 1, #touched do fleet.reindex(touched[i]) end
  n, tick = 0, 0
end

local function use(t, name, amount) set(t, name, (t[name] or 0) + amount) end

local function charge_tenant(slot, shape, units)
  local tenant = fleet.by_tenant[mirror.columns.tenant[slot]]
  if not tenant then return end
  use(tenant.usage, "jobs", 1)
  use(tenant.usage, "units", units)
  for i = 1, shape.n do use(tenant.usage, shape.names[i], shape.values[i]) end
  local usable = fleet.metrics.usable_units
  local weight = tenant.public.weight or 1
  if usable and usable > 0 and weight > 0 then use(tenant.public, "share", units / usable / weight) end
end

local function charge_worker(slot, rec, shape)
  local p = rec.public
  set(p, "slots_free", p.slots_free - (shape.amounts.slots or 1))
  for i = 1, shape.n do
    local name = shape.names[i]
    if name ~= "slots" then use(rec.free, name, -shape.values[i]) end
  end
  local vram = mirror.columns.estimated_vram[slot]
  if vram and p.model_ref == nil and p.vram_free then set(p, "vram_free", p.vram_free - vram) end
  if p.slots_free <= 0 then set(p, "status", "busy") end
  tick = tick + 1
  set(p, "last_used_at", mirror.now)
  set(rec, "tick", tick)
  reindex(rec)
end

local function add_running(slot, rec, shape, units)
  local estimate = mirror.columns.estimated_duration_ms[slot]
  local job = { id = mirror.columns.id[slot], class_index = mirror.inner.class_index[slot], tenant = mirror.columns.tenant[slot],
    units = units, shape = shape, started_at = mirror.now, ends_at = estimate and mirror.now + estimate or nil,
    checkpointable = false, stopping = false, fresh = true }
  local at = #rec.running + 1
  set(rec.running, at, job)
  set(rec.shown, at, fleet.running_view(job))
end

function M.dispatch(job_id, worker_id)
  local slot = mirror.slot_of[job_id or false]
  if not slot or not mirror.is_queued(slot) or not fitting.units_left(slot) then return false end
  local rec = fleet.by_worker[worker_id or false]
  local external = mirror.columns.external[slot] and worker_id == nil
  if not external and (not rec or not fitting.room(slot, rec)) then return false end
  local shape, units = mirror.inner.shape[slot], mirror.columns.units[slot]
  take(slot)
  if not external then
    add_running(slot, rec, shape, units)
    charge_worker(slot, rec, shape)
  end
  charge_tenant(slot, shape, units)
  use(fleet.metrics, "leased_units", units)
  return true
end

-- An evicted worker takes nothing new from now on.
function M.evict(worker_id)
  local rec = fleet.by_worker[worker_id]
  if not rec or rec.public.status == "draining" then return false end
  set(rec.public, "status", "draining")
  reindex(rec)
  return true
end

local function gpu_of(pool, gpu_id)
  for _, gpu in ipairs(pool.gpus) do
    if gpu.id == gpu_id then return gpu end
  end
  return nil
end

-- A worker on its way: it holds its VRAM already, and shows that its model need not be started twice.
function M.start_worker(model_ref, pool_id, gpu_id)
  local pool = fleet.by_pool[pool_id]
  if not pool or type(model_ref) ~= "string" then return false end
  local model, gpu = fleet.by_model[fleet.resolve(model_ref)], gpu_of(pool, gpu_id)
  if gpu_id ~= nil and not gpu then return false end
  local vram = model and model.public.vram or 0
  if gpu and gpu.vram_free < vram then return false end
  if gpu then set(gpu, "vram_free", gpu.vram_free - vram) end
  note(CALL, fleet.expect_worker(pool, model_ref, gpu_id), false)
  return true
end

-- Victims stop at their next heartbeat, so nothing is free yet; the job waits out of sight for the rest of the cycle.
function M.preempt(job_id, victims)
  local slot = mirror.slot_of[job_id]
  if not slot or not mirror.is_queued(slot) then return false end
  local wanted, found = {}, {}
  for i = 1, #victims do wanted[victims[i]] = true end
  for _, rec in ipairs(fleet.workers()) do
    for _, job in ipairs(rec.running) do
      if wanted[job.id] then found[#found + 1] = job end
    end
  end
  if #found == 0 or #found ~= #victims then return false end
  for i = 1, #found do set(found[i], "stopping", true) end
  take(slot)
  return true
end
