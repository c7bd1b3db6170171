-- Read-only views. Under LuaJIT `#`, `pairs` and `ipairs` ignore the metamethods of tables, so:
--   records are empty-looking tables whose one raw entry sits under a private key; every write raises;
--   lists are userdata, whose `__len` and `__index` do work.
-- A policy has no rawset, setmetatable, debug or raw `next`, and the private key never leaves this file's callers.
local hg = ...
local M = {}
hg.views = M

local KEY = {}
M.KEY = KEY
local rawget, rawtype, setmetatable, getmetatable, newproxy = rawget, type, setmetatable, getmetatable, newproxy
local weak = { __mode = "k" }

local function refuse(_, k)
  local name = rawtype(k) == "string" and k or rawtype(k)
  error("read-only: cannot write field '" .. name .. "'", 2)
end
M.refuse = refuse

-- A family of records: `index(view, key)` reads one field, `fields` is the order of `pairs`.
local families = setmetatable({}, weak)
function M.family(name, fields, index)
  local meta = { __index = index, __newindex = refuse, __metatable = false }
  local family = { name = name, fields = fields, meta = meta }
  families[meta] = family
  return function(hidden)
    local v = setmetatable({ [KEY] = hidden }, meta)
    return v
  end, meta
end

-- A record over a plain table: its keys are the fields.
local plain = { __index = function(v, k) return v[KEY][k] end, __newindex = refuse, __metatable = false }
local frozen_of = setmetatable({}, weak)

-- Lists: `get(i)` and `len()` over hidden data.
local hidden_of = setmetatable({}, weak)
local proto = newproxy(true)
local list_meta = getmetatable(proto)
list_meta.__index = function(l, i) return hidden_of[l][i] end
list_meta.__len = function(l) return #hidden_of[l] end
list_meta.__newindex = refuse
list_meta.__metatable = false
list_meta.__tostring = function() return "list" end

-- A list over an array of values that are already safe to hand out.
function M.list(items)
  local l = newproxy(proto)
  hidden_of[l] = items
  return l
end
function M.relist(l, items) hidden_of[l] = items end

-- A list with its own way to find items.
function M.special_list(index, len)
  local l = newproxy(true)
  local meta = getmetatable(l)
  meta.__index, meta.__len, meta.__newindex, meta.__metatable = index, len, refuse, false
  return l
end

local NOTHING = M.list({})
M.NOTHING = NOTHING

-- Deep read-only view of decoded data; the same data gives the same view.
local function freeze(value)
  if rawtype(value) ~= "table" then return value end
  local view = frozen_of[value]
  if view then return view end
  local n = #value
  if n > 0 then
    local items = {}
    for i = 1, n do items[i] = freeze(value[i]) end
    view = M.list(items)
  else
    local items = {}
    for k, v in next, value do items[k] = freeze(v) end
    view = setmetatable({ [KEY] = items }, plain)
  end
  frozen_of[value] = view
  return view
end
M.freeze = freeze

-- A record over a live internal table: what changes inside shows through.
function M.window(data) return setmetatable({ [KEY] = data }, plain) end

function M.is_record(v) return rawtype(v) == "table" and rawget(v, KEY) ~= nil end
function M.is_list(v) return rawtype(v) == "userdata" end
function M.hidden(v) return rawget(v, KEY) end

-- What a record is a view of, if it is of a family.
function M.name_of(v)
  local family = families[hg.meta_of(v)]
  return family and family.name
end

-- Field names of a record in the order of `pairs`; nil when they have to be read from the data.
function M.fields_of(v)
  local family = families[hg.meta_of(v)]
  local fields = family and family.fields
  if rawtype(fields) == "function" then return fields() end
  return fields
end
