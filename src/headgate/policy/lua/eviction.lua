-- Helpers about eviction: which idle worker goes first, and whether it should go at all.
local hg = ...
local mirror, fleet, fitting, helpers = hg.mirror, hg.fleet, hg.fitting, hg.helpers
local resolve, worker_for = fleet.resolve, fitting.worker_for

local function is_idle(rec) return rec.public.status == "ready" and #rec.running == 0 end

-- What a worker's model holds, as far as the catalogue knows.
local function held_vram(rec)
  local model = fleet.by_model[resolve(rec.public.model_ref) or false]
  return model and model.public.vram or 0
end

local function to_evict(pool, vram, earlier)
  local best, pool_id
  pool_id, vram = fitting.id_of(pool), fitting.expect(vram or 0, "number", "find_worker_to_evict")
  for _, rec in ipairs(fleet.workers()) do
    local held = rec.public.vram_free or 0
    if is_idle(rec) and (not pool_id or rec.public.pool_id == pool_id) and held_vram(rec) + held >= vram
      and (not best or earlier(rec, best)) then best = rec end
  end
  return best and best.view or nil
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
function helpers.find_worker_to_evict_lru(pool, vram) return to_evict(pool, vram, lru) end
function helpers.find_worker_to_evict_lfu(pool, vram) return to_evict(pool, vram, lfu) end

-- True when the worker is idle and no queued job wants its model; else false and why.
function helpers.should_evict(worker)
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
