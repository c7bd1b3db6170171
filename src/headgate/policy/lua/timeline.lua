-- The future as far as it is known: what will be free when, if everything that runs ends as predicted. A policy makes reservations
-- in it; they are promises of the policy to itself, forgotten with the cycle. A job that is past its predicted end may end at any
-- moment; one that nobody can predict holds what it has for ever.
local hg = ...
local views, mirror, fleet, fitting, helpers = hg.views, hg.mirror, hg.fleet, hg.fitting, hg.helpers

local sort, huge, max, insert = table.sort, math.huge, math.max, table.insert
local FEW = 128

-- Lines: from times[i] on, until times[i + 1], free[i] of one thing is free --------------------------------------------------------

local function by_time(a, b) return a.at < b.at end
local function order(list)
  local n = #list
  if n > FEW then sort(list, by_time) return end
  for i = 2, n do
    local entry, j = list[i], i - 1
    while j >= 1 and list[j].at > entry.at do
      list[j + 1] = list[j]
      j = j - 1
    end
    list[j + 1] = entry
  end
end

-- `ends` is in order of time; `amount(entry)` says what comes free with each.
local function new_line(now, free, ends, amount)
  local times, left, n = { now }, { free }, 1
  for i = 1, #ends do
    local entry = ends[i]
    local gives = amount(entry.job)
    if gives ~= 0 and entry.at ~= huge then
      if times[n] ~= entry.at then
        n = n + 1
        times[n], left[n] = entry.at, left[n - 1]
      end
      left[n] = left[n] + gives
    end
  end
  return { times = times, free = left, n = n }
end

-- The earliest moment from `from` on at which `amount` is free for `lasts`; nil if never.
local function earliest(line, from, lasts, amount)
  local times, free, n = line.times, line.free, line.n
  local i = 1
  while i < n and times[i + 1] <= from do i = i + 1 end
  local start = from
  while i <= n do
    if free[i] < amount then
      if i == n then return nil end
      start = times[i + 1]
    elseif i == n or times[i + 1] >= start + lasts then
      return start
    end
    i = i + 1
  end
  return nil
end

-- Makes sure that a step begins at `at`; returns its place.
local function step_at(line, at)
  local times, free, i = line.times, line.free, line.n
  while i > 1 and times[i] > at do i = i - 1 end
  if times[i] == at then return i end
  insert(times, i + 1, at)
  insert(free, i + 1, free[i])
  line.n = line.n + 1
  return i + 1
end

local function hold(line, from, lasts, amount)
  if amount == 0 then return end
  local first = step_at(line, from)
  local last = lasts == huge and line.n or step_at(line, from + lasts) - 1
  local free = line.free
  for i = first, last do free[i] = free[i] - amount end
end

-- Building -----------------------------------------------------------------------------------------------------------------------

local function ends_of(running, found, now)
  for i = 1, #running do
    local job = running[i]
    local at = job.ends_at or huge
    if at <= now then at = now + 1 end
    found[#found + 1] = { at = at, job = job }
  end
  return found
end

local function units_of(job) return job.units end
local function slots_of(job) return job.shape.amounts.slots or 1 end

local function units_line(now)
  local free = fleet.free_units()
  if not free then return nil end
  local ends = {}
  for _, rec in ipairs(fleet.workers()) do ends_of(rec.running, ends, now) end
  order(ends)
  return new_line(now, free, ends, units_of)
end

-- The lines of one worker, made when they are first asked for.
local function worker_lines(rec, now)
  local ends = ends_of(rec.running, {}, now)
  order(ends)
  local lines = { slots = new_line(now, rec.public.slots_free, ends, slots_of) }
  return setmetatable(lines, { __index = function(t, name)
    local line = new_line(now, rec.free[name] or 0, ends, function(job) return job.shape.amounts[name] or 0 end)
    t[name] = line
    return line
  end })
end

-- Placing --------------------------------------------------------------------------------------------------------------------------

-- Could this worker run the job at all? One that holds a model is left to those who want that model.
local function serves(slot, rec)
  local public = rec.public
  if public.status ~= "ready" and public.status ~= "busy" then return false end
  local held, wanted = fleet.resolve(public.model_ref), mirror.columns.model_ref[slot]
  if held and held ~= fleet.resolve(wanted or nil) then return false end
  return not fitting.suits_not(slot, rec)
end

local function earliest_on(lines, slot, from, lasts)
  local shape, at = mirror.inner.shape[slot], from
  repeat
    local before = at
    at = earliest(lines.slots, at, lasts, shape.amounts.slots or 1)
    for i = 1, shape.n do
      if not at then return nil end
      if shape.names[i] ~= "slots" then at = earliest(lines[shape.names[i]], at, lasts, shape.values[i]) end
    end
  until not at or at == before
  return at
end

local Timeline = {}

local function lines_for(self, rec)
  local lines = self.workers[rec.id]
  if not lines then
    lines = worker_lines(rec, self.now)
    self.workers[rec.id] = lines
  end
  return lines
end

local function best_worker(self, slot, from, lasts)
  local best, best_at
  for _, rec in ipairs(fleet.workers()) do
    if serves(slot, rec) then
      local at = earliest_on(lines_for(self, rec), slot, from, lasts)
      if at and (not best_at or at < best_at) then best, best_at = rec, at end
      if best_at == from then break end
    end
  end
  return best_at, best
end

local function find(self, slot)
  local lasts = max(helpers.estimate_duration(mirror.job_view(slot)) or huge, 1)
  local units, at, rec = mirror.columns.units[slot], self.now, nil
  repeat
    local before = at
    if self.units then at = earliest(self.units, at, lasts, units) end
    if at and not mirror.columns.external[slot] then at, rec = best_worker(self, slot, at, lasts) end
  until not at or at == before
  return at, rec, lasts
end

-- When and where the job could start beside all that is reserved; nil if never.
function Timeline.earliest(self, job)
  local slot = fitting.slot_for(job)
  if not slot then return nil end
  local at, rec = find(self, slot)
  return at, rec and rec.id or nil
end

-- The same, and nothing that is asked for later gets what this job needs there and then.
function Timeline.reserve(self, job)
  local slot = fitting.slot_for(job)
  if not slot then return nil end
  local at, rec, lasts = find(self, slot)
  if not at then return nil end
  if self.units then hold(self.units, at, lasts, mirror.columns.units[slot]) end
  if rec then
    local lines, shape = lines_for(self, rec), mirror.inner.shape[slot]
    hold(lines.slots, at, lasts, shape.amounts.slots or 1)
    for i = 1, shape.n do
      if shape.names[i] ~= "slots" then hold(lines[shape.names[i]], at, lasts, shape.values[i]) end
    end
  end
  return at, rec and rec.id or nil
end

-- helpers.timeline(): an object of the policy's own, as things stand after the answers so far.
function helpers.timeline()
  local now = mirror.now
  local self = { now = now, units = units_line(now), workers = {} }
  return views.family("timeline", { "earliest", "reserve" }, function(_, name)
    local act = Timeline[name]
    return act and function(job) return act(self, job) end
  end)(true)
end
