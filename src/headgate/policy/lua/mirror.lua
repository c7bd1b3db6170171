-- The mirror: what the engine knows, as the policy may see it. One array per job field (24 MB instead of 71 MB at 100,000 jobs),
-- job views made on demand, the queue in order and in groups. Fed by deltas only; `effects.lua` borrows it for one question.
local hg = ...
local queue, views, codec = hg.queue, hg.views, hg.codec
local M = {}
hg.mirror = M

local KEY, freeze, window = views.KEY, views.freeze, views.window
local sort, remove = table.sort, table.remove
local CLASSES = { [0] = "high", "normal", "low", "background" }
M.CLASSES = CLASSES

-- Columns: `false` stands for nil, so that the arrays stay dense.
local COLUMNS = { "id", "name", "type", "priority", "rank", "tenant", "units", "model_ref", "seed", "max_tokens", "created_at",
  "queued_at", "attempt", "estimated_vram", "estimated_duration_ms", "pool", "external",
  "handler" }
local INNER = { "class_index", "seq", "shape", "raw_labels", "raw_attributes", "raw_requires", "group", "view", "q_pos", "q_home", "g_pos", "g_home" }
local slot_of, columns, inner, free_slots, high_slot
local stamp = 0  -- grows with every change of the queue
local class_queues, group_tree, groups, groups_sorted, shapes

M.now, M.seed, M.time = 0, 0, window({})

function M.reset()
  if inner then for slot = 1, high_slot do
    local v = inner.view[slot]
    if v then v[KEY] = 0 end
  end end
  slot_of, columns, inner, free_slots, high_slot, stamp = {}, {}, {}, {}, 0, stamp + 1
  for _, name in ipairs(COLUMNS) do columns[name] = { [0] = false } end
  for _, name in ipairs(INNER) do inner[name] = {} end
  class_queues, group_tree, groups, groups_sorted, M.live_groups = {}, {}, {}, true, 0
  for c = 0, 3 do class_queues[c] = queue.new(inner.q_pos, inner.q_home) end
  shapes = setmetatable({}, { __mode = "v" })
  M.columns, M.inner, M.class_queues, M.slot_of = columns, inner, class_queues, slot_of
end

-- Decoded lazily and shared: most jobs of one sender carry the same labels.
local decoded = setmetatable({}, { __mode = "v" })
local EMPTY = window({})
local function nested(raw)
  if not raw or raw == "\128" then return EMPTY end
  local view = decoded[raw]
  if not view then
    view = freeze(codec.decode(raw))
    decoded[raw] = view
  end
  return view
end
M.nested = nested

local function shape_of(raw)
  local shape = shapes[raw]
  if shape then return shape end
  local amounts, names = codec.decode(raw), {}
  for name in next, amounts do names[#names + 1] = name end
  sort(names)
  local values = {}
  for i = 1, #names do values[i] = amounts[names[i]] end
  shape = { raw = raw, amounts = amounts, names = names, values = values, n = #names, view = freeze(amounts) }
  shapes[raw] = shape
  return shape
end
M.shape_of = shape_of

-- Views of jobs ---------------------------------------------------------------------------------------------------------------

local computed = {
  class = function(s) return CLASSES[inner.class_index[s]] end,
  resources = function(s) return inner.shape[s].view end,
  labels = function(s) return nested(inner.raw_labels[s]) end,
  attributes = function(s) return nested(inner.raw_attributes[s]) end,
  requires = function(s) return nested(inner.raw_requires[s]) end,
  wait_ms = function(s) return M.now > columns.queued_at[s] and M.now - columns.queued_at[s] or 0 end,
}
M.JOB_FIELDS = { "id", "name", "type", "priority", "class", "rank", "tenant", "units", "resources", "model_ref", "seed",
  "max_tokens", "labels", "attributes", "created_at", "queued_at", "wait_ms", "attempt", "estimated_vram", "estimated_duration_ms",
  "pool", "requires", "external", "handler" }

local new_job_view, job_meta = views.family("job", M.JOB_FIELDS, function(v, k)
  local column = columns[k]
  if column then return column[v[KEY]] or nil end
  local read = computed[k]
  local slot = v[KEY]
  if read and slot ~= 0 then return read(slot) end
  return nil
end)
M.job_meta = job_meta

local function job_view(slot)
  if slot == 0 then return nil end
  local v = inner.view[slot]
  if not v then
    v = new_job_view(slot)
    inner.view[slot] = v
  end
  return v
end
M.job_view = job_view

-- Groups ----------------------------------------------------------------------------------------------------------------------

local function branch(tree, key)
  local t = tree[key]
  if not t then
    t = {}
    tree[key] = t
  end
  return t
end

local ordered_list
local GROUP_FIELDS = { "class", "tenant", "model_ref", "units", "resources", "count", "head", "jobs" }
local new_group_view = views.family("group", GROUP_FIELDS, function(v, k)
  local g = v[KEY]
  if k == "count" then return g.queue.count end
  if k == "head" then return job_view(queue.head(g.queue)) end
  if k == "jobs" then
    if not g.jobs then g.jobs = ordered_list({ g.queue }, 1, 1) end
    return g.jobs
  end
  return g.public[k]
end)

-- What else decides where a job may run: handlers of its type, its pool, labels it requires, or that it needs no worker at all.
local function bounds_of(slot)
  local how = columns.external[slot] and "e" or columns.handler[slot] and "h" or ""
  return (columns.type[slot] or "") .. "\0" .. (columns.pool[slot] or "") .. "\0" .. inner.raw_requires[slot] .. how
end

local function group_for(slot)
  local c, tenant, model = inner.class_index[slot], columns.tenant[slot], columns.model_ref[slot]
  local units, shape = columns.units[slot], inner.shape[slot]
  local leaf = branch(branch(branch(branch(branch(group_tree, c), tenant), model), units), shape.raw)
  local bounds = bounds_of(slot)
  local g = leaf[bounds]
  if g then return g end
  g = { class_index = c, leaf = leaf, bounds = bounds, queue = queue.new(inner.g_pos, inner.g_home), tenant = tenant,
    public = { class = CLASSES[c], tenant = tenant, model_ref = model or nil, units = units, resources = shape.view } }
  g.view = new_group_view(g)
  leaf[bounds] = g
  groups[#groups + 1] = g
  return g
end

local function drop_group(g)
  g.leaf[g.bounds] = nil
  for i = 1, #groups do
    if groups[i] == g then remove(groups, i) return end
  end
end

-- Order of groups: by class, then the order of their heads; empty ones (taken within this question) last. Usually at most one
-- group is out of place, so one pass compares neighbours and only the odd one is moved.
local function comes_before(a, b)
  if a.k1 ~= b.k1 then return a.k1 < b.k1 end
  if a.k2 ~= b.k2 then return a.k2 < b.k2 end
  return a.k3 < b.k3
end
local function move_back(i)
  local g, j = groups[i], i - 1
  while j >= 1 and comes_before(g, groups[j]) do
    groups[j + 1] = groups[j]
    j = j - 1
  end
  groups[j + 1] = g
end
local function update_key(g)
  local head = queue.head(g.queue)
  if head == 0 then g.k1, g.k2, g.k3 = 9, 0, 0
  else g.k1, g.k2, g.k3 = g.class_index, -columns.rank[head], inner.seq[head] end
  g.stale = false
end
local function sort_groups()
  groups_sorted = true
  local n, live = #groups, 0
  for i = 1, n do
    local g = groups[i]
    if g.stale then update_key(g) end
    if g.k1 ~= 9 then live = live + 1 end
  end
  for i = 2, n do
    if comes_before(groups[i], groups[i - 1]) then move_back(i) end
  end
  M.live_groups = live
end

function M.touch(g)
  stamp = stamp + 1
  groups_sorted, g.stale = false, true
end

function M.sorted_groups()
  if not groups_sorted then sort_groups() end
  return groups, M.live_groups
end

M.groups = views.special_list(function(_, i)
  if not groups_sorted then sort_groups() end
  if type(i) == "number" and i >= 1 and i <= M.live_groups then
    local g = groups[i]
    return g and g.view
  end
end, function()
  if not groups_sorted then sort_groups() end
  return M.live_groups
end)
M.live_groups = 0

-- The queue as a list: a cursor makes walking it in order cheap; any change invalidates the cursor.
function ordered_list(queues, low, high)
  local at = { stamp = -1, i = 0, q = low, b = 1, p = 0, slots = {}, last = 0 }
  -- Finds the i-th from the start or from where the cursor stands.
  local function seek(i)
    if at.stamp ~= stamp or i < at.i then at.stamp, at.i, at.q, at.b, at.p = stamp, 0, low, 1, 0 end
    local slot = 0
    while at.i < i do
      local b, p
      b, p, slot = queue.after(queues[at.q], at.b, at.p)
      if slot ~= 0 then at.b, at.p, at.i = b, p, at.i + 1
      elseif at.q < high then at.q, at.b, at.p = at.q + 1, 1, 0
      else
        at.stamp = -1
        return nil
      end
    end
    local bucket = queues[at.q].ranks[at.b]
    at.slots, at.last = bucket.slots, bucket.last
    return job_view(at.slots[at.p])
  end
  -- The next one in the same bucket is the common case and has to stay free of loops to be compiled.
  local function get(_, i)
    if type(i) ~= "number" or i < 1 or i % 1 ~= 0 then return nil end
    if at.stamp == stamp and i == at.i + 1 and at.p < at.last then
      local slot = at.slots[at.p + 1]
      if slot ~= 0 then
        at.i, at.p = i, at.p + 1
        return inner.view[slot] or job_view(slot)
      end
    end
    return seek(i)
  end
  return views.special_list(get, function()
    local n = 0
    for c = low, high do n = n + queues[c].count end
    return n
  end)
end

function M.depth()
  local n = 0
  for c = 0, 3 do n = n + class_queues[c].count end
  return n
end

-- Jobs in and out -------------------------------------------------------------------------------------------------------------

local function enqueue(slot)
  queue.add(class_queues[inner.class_index[slot]], slot, columns.rank[slot], inner.seq[slot])
  local g = group_for(slot)
  inner.group[slot] = g
  queue.add(g.queue, slot, columns.rank[slot], inner.seq[slot])
  M.touch(g)
end

local function dequeue(slot)
  queue.remove(class_queues[inner.class_index[slot]], slot)
  local g = inner.group[slot]
  queue.remove(g.queue, slot)
  if g.queue.count == 0 then drop_group(g) end
  M.touch(g)
end

-- Takes a job out of sight for the rest of the question; `put_back` undoes it, in reverse order.
function M.take(slot)
  queue.take(class_queues[inner.class_index[slot]], slot)
  queue.take(inner.group[slot].queue, slot)
  M.touch(inner.group[slot])
end
function M.put_back(slot)
  queue.put_back(class_queues[inner.class_index[slot]], slot)
  queue.put_back(inner.group[slot].queue, slot)
  M.touch(inner.group[slot])
end
function M.is_queued(slot) return inner.q_home[slot].slots[inner.q_pos[slot]] == slot end

function M.job_removed(id)
  local slot = slot_of[id]
  if not slot then return end
  dequeue(slot)
  slot_of[id] = nil
  local v = inner.view[slot]
  if v then v[KEY] = 0 end
  inner.view[slot], inner.group[slot], columns.id[slot] = false, false, false
  free_slots[#free_slots + 1] = slot
end

local function take_slot()
  local n = #free_slots
  if n > 0 then
    local slot = free_slots[n]
    free_slots[n] = nil
    return slot
  end
  high_slot = high_slot + 1
  inner.view[high_slot] = false
  return high_slot
end

-- Reads one JobAdded from the open frame (its tag is already read).
function M.job_added()
  local read, raw = codec.read, codec.raw
  local id = read()
  if slot_of[id] then M.job_removed(id) end
  local s = take_slot()
  slot_of[id], columns.id[s] = s, id
  inner.class_index[s], columns.rank[s], inner.seq[s] = read(), read(), read()
  columns.name[s], columns.type[s], columns.priority[s] = read() or false, read() or false, read() or false
  columns.tenant[s], columns.units[s], inner.shape[s] = read(), read(), shape_of(raw())
  columns.model_ref[s], columns.seed[s], columns.max_tokens[s] = read() or false, read() or false, read() or false
  inner.raw_labels[s], inner.raw_attributes[s] = raw(), raw()
  columns.created_at[s], columns.queued_at[s], columns.attempt[s] = read(), read(), read()
  columns.estimated_vram[s], columns.estimated_duration_ms[s] = read() or false, read() or false
  columns.pool[s], inner.raw_requires[s], columns.external[s] = read() or false, raw(), read()
  columns.handler[s] = read()
  enqueue(s)
end

-- Changes named fields; `nulls` are fields that become nil.
local RAW = { labels = "raw_labels", attributes = "raw_attributes", requires = "raw_requires" }
function M.job_changed()
  local id = codec.read()
  local slot, n = slot_of[id], codec.array_size()
  if slot then dequeue(slot) end
  for _ = 1, n / 2 do
    local field = codec.read()
    if RAW[field] or field == "resources" then
      local raw = codec.raw()
      if slot and field == "resources" then inner.shape[slot] = shape_of(raw)
      elseif slot then inner[RAW[field]][slot] = raw end
    else
      local value = codec.read()
      if slot and (field == "class_index" or field == "seq") then inner[field][slot] = value
      elseif slot and columns[field] then columns[field][slot] = value or false end
    end
  end
  if slot then enqueue(slot) end
end

M.reset()
-- The class queues are replaced by a reset, so the list looks them up each time.
M.queue = ordered_list(setmetatable({}, { __index = function(_, c) return class_queues[c] end }), 0, 3)
