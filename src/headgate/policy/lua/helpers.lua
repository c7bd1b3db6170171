-- The calls of `context.helpers` that choose workers and look at jobs; quotas, stock, eviction and victims have files of their
-- own. Answers come from the mirror and follow the effects of earlier answers in the same cycle. An unknown
-- id gives nil (or false and a reason), never an error; a wrong type is an error that names the call. Ties go to the smaller id.
local hg = ...
local views, mirror, fleet, fitting = hg.views, hg.mirror, hg.fleet, hg.fitting
local M = {}
hg.helpers = M  -- what is put here is what a policy sees

local slot_for, worker_for, room, units_left = fitting.slot_for, fitting.worker_for, fitting.room, fitting.units_left
local id_of, expect = fitting.id_of, fitting.expect
local is_record, accepting, sort = views.is_record, fleet.accepting, table.sort

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
  local pool_id = id_of(pool)
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
  local pool_id = id_of(pool)
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
  expect(test, "function", "filter_workers")
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
  expect(test, "function", "filter_jobs")
  local found, list, most = {}, mirror.queue, expect(limit or 1 / 0, "number", "filter_jobs")
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
  local columns = mirror.columns
  local by_type = fleet.config.duration_by_type
  return columns.estimated_duration_ms[slot] or (by_type and by_type[columns.type[slot] or ""])
    or fleet.config.default_duration_ms or nil
end

function M.can_fit(job, worker)
  local slot, rec = slot_for(job), worker_for(worker)
  if not slot then return false, "job is not in the queue" end
  if not rec then return false, "no such worker" end
  local ok, why = room(slot, rec)
  if not ok then return false, why end
  if not units_left(slot) then return false, "not enough units" end
  return true, nil
end

-- Small things ----------------------------------------------------------------------------------------------------------------

-- Mean of a list of numbers, or of one field of a list of records; nil for an empty list.
function M.average(items, field)
  local sum, n = 0, 0
  if not views.is_list(items) then expect(items, "table", "average") end
  for i = 1, #items do
    local value = items[i]
    if field ~= nil then value = type(value) == "table" and value[field] end
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
