-- Preemption, by the rules of the domain: only a `high` job, only `low` and `background` victims, chosen by lowest class, least
-- work lost, fewest; and never without making room.
local hg = ...
local mirror, fleet, fitting, helpers = hg.mirror, hg.fleet, hg.fitting, hg.helpers
local sort = table.sort

-- A job that checkpoints loses nothing but its grace period.
local function lost(job)
  if job.checkpointable then return 0 end
  return mirror.now > job.started_at and mirror.now - job.started_at or 0
end

-- Classes by settings, else those of the domain.
local function classes(setting, default)
  local wanted, set = fleet.config[setting] or default, {}
  for i = 1, #wanted do set[wanted[i]] = true end
  return set
end
local PREEMPTING, PREEMPTIBLE = { "high" }, { "low", "background" }

local function candidates(rec)
  local found, preemptible = {}, classes("preemptible_classes", PREEMPTIBLE)
  for _, job in ipairs(rec.running) do
    if preemptible[mirror.CLASSES[job.class_index]] and not job.stopping and not job.fresh then found[#found + 1] = { job = job, lost = lost(job) } end
  end
  sort(found, function(a, b)
    if a.job.class_index ~= b.job.class_index then return a.job.class_index > b.job.class_index end
    if a.lost ~= b.lost then return a.lost < b.lost end
    return a.job.id < b.job.id
  end)
  return found
end

-- Would the job fit if these were gone?
local function makes_room(slot, rec, chosen)
  local shape, slots, units = mirror.inner.shape[slot], rec.public.slots_free, fleet.free_units()
  local extra = {}
  for _, c in ipairs(chosen) do
    slots = slots + 1
    units = units and units + c.job.units
    for i = 1, c.job.shape.n do
      local name = c.job.shape.names[i]
      extra[name] = (extra[name] or 0) + c.job.shape.values[i]
    end
  end
  if slots < (shape.amounts.slots or 1) or (units and units < mirror.columns.units[slot]) then return false end
  for i = 1, shape.n do
    local name = shape.names[i]
    if name ~= "slots" and shape.values[i] > (rec.free[name] or 0) + (extra[name] or 0) then return false end
  end
  return true
end

-- Drops those that turn out not to be needed, the most valuable first.
local function prune(slot, rec, chosen)
  for i = #chosen, 1, -1 do
    local without = {}
    for j = 1, #chosen do
      if j ~= i then without[#without + 1] = chosen[j] end
    end
    if makes_room(slot, rec, without) then chosen = without end
  end
  return chosen
end

local function plan_on(slot, rec)
  local chosen = {}
  for _, c in ipairs(candidates(rec)) do
    chosen[#chosen + 1] = c
    if makes_room(slot, rec, chosen) then
      chosen = prune(slot, rec, chosen)
      local plan = { rec = rec, chosen = chosen, class = 9, lost = 0 }
      for _, v in ipairs(chosen) do
        if v.job.class_index < plan.class then plan.class = v.job.class_index end
        plan.lost = plan.lost + v.lost
      end
      return plan
    end
  end
  return nil
end

local function better(a, b)
  if a.class ~= b.class then return a.class > b.class end
  if a.lost ~= b.lost then return a.lost < b.lost end
  if #a.chosen ~= #b.chosen then return #a.chosen < #b.chosen end
  return a.rec.id < b.rec.id
end

local function may_hold(rec, slot, wanted)
  local status, model = rec.public.status, fleet.resolve(rec.public.model_ref)
  return (status == "ready" or status == "busy") and (model == nil or model == wanted) and not fitting.suits_not(slot, rec)
end

-- find_victims(job): ids of the running jobs to stop and the worker they run on; or nil and why not.
function helpers.find_victims(job)
  local slot = fitting.slot_for(job)
  if not slot then return nil, "job is not in the queue" end
  local class = mirror.CLASSES[mirror.inner.class_index[slot]]
  if not classes("preempting_classes", PREEMPTING)[class] then return nil, "jobs of class " .. class .. " do not preempt" end
  local wanted, best = fleet.resolve(mirror.columns.model_ref[slot]), nil
  for _, rec in ipairs(fleet.workers()) do
    if may_hold(rec, slot, wanted) then
      if makes_room(slot, rec, {}) then return nil, "it fits without stopping anything" end
      local plan = plan_on(slot, rec)
      if plan and (not best or better(plan, best)) then best = plan end
    end
  end
  if not best then return nil, "stopping lower jobs would not make room" end
  local ids = {}
  for i, c in ipairs(best.chosen) do ids[i] = c.job.id end
  return ids, best.rec.view
end
