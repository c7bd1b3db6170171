-- Functions that compiled policies draw on. The compiler copies only those that a policy needs.
-- A line "--@ name: needs" opens a section; the sections keep this order in the output.

--@ at:
-- The value under a key, or nil where there is no such map.
local function at(map, key)
  if type(map) == "table" or type(map) == "userdata" then return map[key] end
  return nil
end

--@ above:
-- Numbers compare with numbers; anything else, a missing value included, does not hold.
local function above(value, bound) return type(value) == "number" and value > bound end

--@ at_least:
-- A number that is not below the bound.
local function at_least(value, bound) return type(value) == "number" and value >= bound end

--@ below:
-- A number below the bound; a missing value is not below anything.
local function below(value, bound) return type(value) == "number" and value < bound end

--@ at_most:
-- A number that is not above the bound; a missing value does not count.
local function at_most(value, bound) return type(value) == "number" and value <= bound end

--@ within:
-- Whether a number lies between two others, both included.
local function within(value, low, high)
  return type(value) == "number" and value >= low and value <= high
end

--@ among:
-- Whether a value is one of a list of values.
local function among(value, list)
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end

--@ matches:
-- Whether a pattern is found in a text.
local function matches(value, pattern)
  return type(value) == "string" and string.find(value, pattern) ~= nil
end

--@ starts_with:
-- Whether a text begins with another.
local function starts_with(value, prefix)
  return type(value) == "string" and string.sub(value, 1, #prefix) == prefix
end

--@ contains:
-- Whether a text holds another, a list holds a value (or a record with that id), or a map holds a key.
local function contains(value, wanted)
  if type(value) == "string" then
    return type(wanted) == "string" and string.find(value, wanted, 1, true) ~= nil
  end
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  if type(wanted) == "string" and value[wanted] ~= nil then return true end
  for _, item in ipairs(value) do
    if item == wanted then return true end
    if (type(item) == "table" or type(item) == "userdata") and item.id == wanted then return true end
  end
  return false
end

--@ tenant_of:
-- The tenant that owns a job, or an empty record; looked up once per tenant and call.
local function tenant_of(context, job, seen)
  local id = job.tenant
  if id == nil then return {} end
  seen.tenants = seen.tenants or {}
  if seen.tenants[id] == nil then
    local found = {}
    for _, tenant in ipairs(context.tenants or {}) do
      if tenant.id == id then found = tenant break end
    end
    seen.tenants[id] = found
  end
  return seen.tenants[id]
end

--@ load_of:
-- How many jobs a worker runs now.
local function load_of(worker)
  local jobs = worker.current_jobs
  if type(jobs) == "number" then return jobs end
  return jobs and #jobs or 0
end

--@ each_worker:
-- Calls visit(worker, pool) for the workers of every reachable pool until it returns something.
local function each_worker(context, visit)
  for _, pool in ipairs(context.pools or {}) do
    if pool.status ~= "offline" then
      for _, worker in ipairs(pool.workers or {}) do
        local found = visit(worker, pool)
        if found ~= nil then return found end
      end
    end
  end
  return nil
end

--@ model_of:
-- The model behind a name: an alias and what it stands for are the same.
local function model_of(context, name)
  if name == nil then return nil end
  return context.helpers.resolve_model(name) or name
end

--@ ready_workers: each_worker model_of
-- The workers with a free slot, all of them and by model; gathered once per call.
local function ready_workers(context, seen)
  if seen.ready then return seen.ready end
  local ready = { all = {}, by_model = {} }
  each_worker(context, function(worker, pool)
    local slots = worker.slots_free
    if (worker.status == "ready" and slots ~= 0) or (worker.status == "busy" and (slots or 0) > 0) then
      local place = { worker = worker, pool = pool }
      ready.all[#ready.all + 1] = place
      local model = model_of(context, worker.model_ref)
      if model ~= nil then
        local same = ready.by_model[model] or {}
        ready.by_model[model] = same
        same[#same + 1] = place
      end
    end
  end)
  seen.ready = ready
  return ready
end

--@ may_start:
-- Whether capacity and quota leave room for a job at all, on whatever worker.
local function may_start(context, job)
  local free = context.metrics and context.metrics.free_units
  if type(free) == "number" and type(job.units) == "number" and job.units > free then return false end
  return context.helpers.check_quota(job) and true or false
end

--@ best_place:
-- The worker with the lowest score among the places that take the job; ties go to the first.
local function best_place(context, places, job, score, accepts)
  local best, lowest
  for i = 1, #places do
    local worker, pool = places[i].worker, places[i].pool
    if accepts(job, worker, pool) and context.helpers.can_fit(job, worker) then
      local value = score(job, worker, pool)
      if best == nil or value < lowest then best, lowest = worker, value end
    end
  end
  return best
end

--@ choose_worker: ready_workers best_place
-- The worker for a job: with its model loaded (required), rather so (preferred), or any (ignored).
-- A job that names no model goes to any worker.
local function choose_worker(context, seen, job, model_match, score, accepts)
  local ready = ready_workers(context, seen)
  if model_match == "ignored" or job.model_ref == nil then
    return best_place(context, ready.all, job, score, accepts)
  end
  local same = ready.by_model[model_of(context, job.model_ref)] or {}
  local worker = best_place(context, same, job, score, accepts)
  if worker == nil and model_match == "preferred" then
    worker = best_place(context, ready.all, job, score, accepts)
  end
  return worker
end

--@ any_worker:
local function any_worker() return true end

--@ least_loaded: load_of
-- Selection: fewest running jobs.
local function least_loaded(_, worker) return load_of(worker) end

--@ most_vram_free:
-- Selection: most free VRAM.
local function most_vram_free(_, worker) return -(worker.vram_free or 0) end

--@ round_robin:
-- Selection: the worker whose turn is longest ago, so that all take turns.
local function round_robin(_, worker) return worker.last_used_at or -1 end

--@ first_worker:
-- Selection: the first in the order of the pools.
local function first_worker() return 0 end

--@ best_fit:
-- Selection: least VRAM left over, then fewest free slots, so that large gaps stay whole.
local function best_fit(_, worker) return (worker.vram_free or 0) + (worker.slots_free or 0) / 1024 end

--@ cache_affinity: load_of contains
-- Selection: the model loaded, then cached in the pool, then least loaded.
local function cache_affinity(job, worker, pool)
  local distance = 2
  if job.model_ref == nil or worker.model_ref == job.model_ref then
    distance = 0
  elseif contains(pool.cached_models, job.model_ref) then
    distance = 1
  end
  return distance * 1000000 + load_of(worker)
end

--@ evictable: each_worker load_of
-- The idle worker with the lowest score that a rule accepts.
local function evictable(context, job, score, accepts)
  local best, lowest
  each_worker(context, function(worker, pool)
    if worker.status == "ready" and load_of(worker) == 0 and accepts(job, worker, pool) then
      local value = score(worker)
      if best == nil or value < lowest then best, lowest = worker, value end
    end
  end)
  return best
end

--@ least_recently_used:
local function least_recently_used(worker) return worker.last_used_at or -1 end

--@ least_often_used:
local function least_often_used(worker) return worker.jobs_completed or 0 end

--@ is_served: each_worker model_of
-- Whether a worker with the model is there or on its way.
local function is_served(context, model_ref)
  local wanted = model_of(context, model_ref)
  return each_worker(context, function(worker)
    local status = worker.status
    local serves = status == "ready" or status == "busy" or status == "starting"
    if serves and model_of(context, worker.model_ref) == wanted then return true end
  end) == true
end

--@ place_for_start:
-- A pool and its GPU with the most free VRAM that holds what is needed; pool_id and gpu_id narrow it down.
-- A pool without GPUs will do for a job that needs no VRAM.
local function place_for_start(context, pool_id, gpu_id, vram_needed)
  local best_pool, best_gpu, most
  for _, pool in ipairs(context.pools or {}) do
    if pool.status ~= "offline" and (pool_id == nil or pool.id == pool_id) then
      if most == nil and gpu_id == nil and vram_needed == 0 and #(pool.gpus or {}) == 0 then
        best_pool, best_gpu, most = pool.id, nil, 0
      end
      for _, gpu in ipairs(pool.gpus or {}) do
        local free = gpu.vram_free or 0
        if (gpu_id == nil or gpu.id == gpu_id) and free >= vram_needed and (most == nil or free > most) then
          best_pool, best_gpu, most = pool.id, gpu.id, free
        end
      end
    end
  end
  return best_pool, best_gpu
end

--@ victims_for: each_worker
-- Running jobs to stop for a job, if that makes room and all of them are of the given classes.
local function victims_for(context, job, classes)
  local victims = context.helpers.find_victims(job)
  if victims == nil or #victims == 0 then return nil end
  local allowed, class_of = {}, {}
  for _, class in ipairs(classes) do allowed[class] = true end
  each_worker(context, function(worker)
    for _, running in ipairs(worker.current_jobs or {}) do class_of[running.id] = running.class end
  end)
  for _, id in ipairs(victims) do
    if not allowed[class_of[id]] then return nil end
  end
  return victims
end

--@ signed:
-- An answer from elsewhere, with the rule that asked for it.
local function signed(answer, rule)
  if type(answer) ~= "table" then return answer end
  local copy = {}
  for key, value in pairs(answer) do copy[key] = value end
  copy.rule = rule
  if copy.reason == nil then copy.reason = "rule " .. rule end
  return copy
end

--@ end:
