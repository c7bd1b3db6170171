-- An ordered queue of slots: rank first (higher before lower), then submission. One bucket per rank, in each a deque of slots;
-- removal leaves a hole that is swept up later, so that adding and taking cost the same at any length.
local hg = ...
local M = {}
hg.queue = M

local insert, remove, floor = table.insert, table.remove, math.floor

-- `pos` and `home` are columns (slot -> place in its bucket, slot -> bucket) shared by all queues of one kind.
function M.new(pos, home)
  return { pos = pos, home = home, ranks = {}, by_rank = {}, count = 0 }
end

local function bucket_for(q, rank)
  local b = q.by_rank[rank]
  if b then return b end
  b = { queue = q, rank = rank, slots = {}, seqs = {}, first = 1, last = 0, count = 0 }
  q.by_rank[rank] = b
  local lo, hi = 1, #q.ranks + 1
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if q.ranks[mid].rank > rank then lo = mid + 1 else hi = mid end
  end
  insert(q.ranks, lo, b)
  return b
end

local function drop_bucket(q, b)
  q.by_rank[b.rank] = nil
  for i = 1, #q.ranks do
    if q.ranks[i] == b then remove(q.ranks, i) return end
  end
end

-- Rewrites a bucket without holes and with `room` free places before the first.
local function sweep(b, room)
  local pos, slots, seqs, n = b.queue.pos, {}, {}, room
  for i = 1, room do slots[i], seqs[i] = 0, -1 end
  for i = b.first, b.last do
    local slot = b.slots[i]
    if slot ~= 0 then
      n = n + 1
      slots[n], seqs[n], pos[slot] = slot, b.seqs[i], n
    end
  end
  b.slots, b.seqs, b.first, b.last = slots, seqs, room + 1, n
end

-- A job that comes back (retry, preemption) keeps its number and so belongs near the front: shift the few before it.
local function insert_before(b, slot, seq)
  if b.first == 1 then sweep(b, 64 + floor(b.count / 8)) end
  local lo, hi = b.first, b.last + 1
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if b.seqs[mid] < seq then lo = mid + 1 else hi = mid end
  end
  local pos, slots, seqs = b.queue.pos, b.slots, b.seqs
  b.first = b.first - 1
  for i = b.first, lo - 2 do
    slots[i], seqs[i] = slots[i + 1], seqs[i + 1]
    if slots[i] ~= 0 then pos[slots[i]] = i end
  end
  slots[lo - 1], seqs[lo - 1], pos[slot] = slot, seq, lo - 1
end

function M.add(q, slot, rank, seq)
  local b = bucket_for(q, rank)
  q.home[slot] = b
  if b.count == 0 then b.first, b.last = 1, 0 end
  if b.last < b.first or seq >= b.seqs[b.last] then
    local n = b.last + 1
    b.last, b.slots[n], b.seqs[n], q.pos[slot] = n, slot, seq, n
  else
    insert_before(b, slot, seq)
  end
  b.count, q.count = b.count + 1, q.count + 1
end

local function skip_holes(b)
  local slots, first, last = b.slots, b.first, b.last
  while first <= last and slots[first] == 0 do first = first + 1 end
  b.first = first
end

-- Takes a slot out but keeps its place, so that `put_back` can undo it.
function M.take(q, slot)
  local b, p = q.home[slot], q.pos[slot]
  b.slots[p] = 0
  b.count, q.count = b.count - 1, q.count - 1
  if p == b.first then
    b.first = p + 1
    if b.slots[p + 1] == 0 then skip_holes(b) end
  end
end

function M.put_back(q, slot)
  local b, p = q.home[slot], q.pos[slot]
  b.slots[p] = slot
  b.count, q.count = b.count + 1, q.count + 1
  if p < b.first then b.first = p end
end

function M.remove(q, slot)
  local b = q.home[slot]
  M.take(q, slot)
  if b.count == 0 then drop_bucket(q, b) return end
  local span = b.last - b.first + 1
  if span > 64 and (b.count * 2 < span or b.first > 2 * span) then sweep(b, 0) end
end

function M.head(q)
  local ranks = q.ranks
  local top = ranks[1]
  if top and top.count > 0 then return top.slots[top.first] end
  for i = 2, #ranks do
    local b = ranks[i]
    if b.count > 0 then return b.slots[b.first] end
  end
  return 0
end

-- The place after (bucket index, position): next bucket index, next position, slot; slot 0 at the end.
function M.after(q, i, p)
  local ranks = q.ranks
  local b = ranks[i]
  while b do
    p = p + 1
    if p < b.first then p = b.first end
    local slots, last = b.slots, b.last
    while p <= last do
      local slot = slots[p]
      if slot ~= 0 then return i, p, slot end
      p = p + 1
    end
    i, p = i + 1, 0
    b = ranks[i]
  end
  return i, p, 0
end
