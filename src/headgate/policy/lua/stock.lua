-- Helpers about what there is: pools, GPUs, models.
local hg = ...
local fleet, fitting, helpers = hg.fleet, hg.fitting, hg.helpers
local sort = table.sort

function helpers.get_pool(id)
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
function helpers.find_pools_with_capacity(vram)
  local found = {}
  vram = fitting.expect(vram or 0, "number", "find_pools_with_capacity")
  for _, pool in ipairs(fleet.pools()) do
    if pool_lives(pool) and has_capacity(pool, vram) then found[#found + 1] = pool.view end
  end
  return found
end

-- Share of the pool's slots in use, 0 to 1; nil for an unknown pool, 0 for an empty one.
function helpers.pool_utilization(pool)
  local rec = fitting.pool_for(pool)
  if not rec then return nil end
  local slots, free = 0, 0
  for _, worker in next, rec.members do
    slots, free = slots + (worker.public.slots or 0), free + (worker.public.slots_free or 0)
  end
  if slots == 0 then return 0 end
  return (slots - free) / slots
end

-- GPUs of living pools with this much VRAM free, most free first; each knows its `pool_id`.
function helpers.find_gpus_with_vram(vram, pool)
  local found, shown, pool_id = {}, {}, fitting.id_of(pool)
  vram = fitting.expect(vram or 0, "number", "find_gpus_with_vram")
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

function helpers.resolve_model(name) return fleet.resolve(name) end
function helpers.get_model(name)
  local rec = fleet.by_model[fleet.resolve(name) or false]
  return rec and rec.view or nil
end
