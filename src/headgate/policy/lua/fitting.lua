-- Who a policy means by a job, a worker or a pool, and whether that job has room on that worker. Shared by all helpers.
local hg = ...
local views, mirror, fleet = hg.views, hg.mirror, hg.fleet
local M = {}
hg.fitting = M

local hidden, is_record = views.hidden, views.is_record

-- A job may be given as a view or as an id; nil when it is not in the queue.
function M.slot_for(job)
  if type(job) == "string" then return mirror.slot_of[job] end
  local slot = is_record(job) and hidden(job)
  if type(slot) == "number" and slot > 0 then return slot end
  return nil
end
function M.worker_for(worker)
  if type(worker) == "string" then return fleet.by_worker[worker] end
  return is_record(worker) and fleet.by_worker[worker.id or false] or nil
end
-- An id may come as the view that bears it.
function M.id_of(what)
  if is_record(what) then return what.id end
  return what
end
-- A wrong type is the author's mistake: say whose argument it is, at the line of the call.
function M.expect(value, wanted, name)
  if type(value) == wanted then return value end
  return error(name .. ": a " .. wanted .. " was expected, got " .. type(value), 3)
end
function M.pool_for(pool)
  if type(pool) == "string" then return fleet.by_pool[pool] end
  return is_record(pool) and fleet.by_pool[pool.id or false] or nil
end

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
  if columns.handler[slot] and not rec.public.handlers then return "worker has no handlers" end
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
