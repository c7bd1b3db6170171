-- What a policy may touch: an allow-list, grouped by why each name is harmless, checked when the runtime starts.
-- Everything that could reach files, processes, code loading, other environments, raw tables, finalisers or the collector is
-- absent. Time and memory are not this file's business: the process around it is killed at its limits.
local hg = ...
local views = hg.views
local M = {}
hg.sandbox = M

local KEY, is_record, is_list = views.KEY, views.is_record, views.is_list
local rawtype, rawtostring, rawerror, rawget, rawnext, rawipairs = type, tostring, error, rawget, next, ipairs
local native_string, native_table, native_math = string, table, math
local sort, concat, insert, remove, unpack, floor = table.sort, table.concat, table.insert, table.remove, unpack, math.floor
local LONGEST_STRING = 1048576

-- Our own versions of what LuaJIT would let look behind a view -------------------------------------------------------------

local function type(v)
  local t = rawtype(v)
  if t == "userdata" then return "table" end
  return t
end

-- No addresses: they differ between processes and help an attacker.
local function tostring(v)
  local t = rawtype(v)
  if t == "string" or t == "number" or t == "boolean" or t == "nil" then return rawtostring(v) end
  if t == "userdata" then return "list" end
  return t
end

local ORDER = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local x, y = ORDER[rawtype(a)], ORDER[rawtype(b)]
  if x ~= y then return x < y end
  if x == 3 then return b and not a end
  return a < b
end
local function check_key(k)
  if not ORDER[rawtype(k)] then rawerror("keys of type " .. rawtype(k) .. " have no stable order", 3) end
end

-- Keys in an order that is the same in every process.
local function sorted_keys(t)
  local keys, n, m = {}, 0, #t
  for k in rawnext, t do
    n = n + 1
    if ORDER[rawtype(k)] == nil then check_key(k) end
    keys[n] = k
  end
  if n == m then
    for i = 1, n do keys[i] = i end
    return keys, n
  end
  sort(keys, before)
  return keys, n
end

local function record_keys(v)
  local fields = views.fields_of(v)
  if fields then return fields, #fields end
  return sorted_keys(views.hidden(v))
end

local function list_step(l, i)
  i = i + 1
  local v = l[i]
  if v ~= nil then return i, v end
end

local function pairs(t)
  if rawtype(t) == "userdata" then return list_step, t, 0 end
  if rawtype(t) ~= "table" then rawerror("pairs: a table was expected, got " .. rawtype(t), 2) end
  local keys, n
  if is_record(t) then keys, n = record_keys(t) else keys, n = sorted_keys(t) end
  local i = 0
  return function()
    while i < n do
      i = i + 1
      local k = keys[i]
      local v = t[k]
      if v ~= nil then return k, v end
    end
  end
end

local function ipairs(t)
  if rawtype(t) == "userdata" then return list_step, t, 0 end
  if rawtype(t) ~= "table" then rawerror("ipairs: a table was expected, got " .. rawtype(t), 2) end
  return rawipairs(t)
end

local function next(t, last)
  if rawtype(t) == "userdata" then return list_step(t, last or 0) end
  if rawtype(t) ~= "table" then rawerror("next: a table was expected, got " .. rawtype(t), 2) end
  local keys, n
  if is_record(t) then keys, n = record_keys(t) else keys, n = sorted_keys(t) end
  local seen = last == nil
  for i = 1, n do
    local k = keys[i]
    if seen and t[k] ~= nil then return k, t[k] end
    if k == last then seen = true end
  end
  return nil
end

local function writable(t, name)
  if rawtype(t) ~= "table" or is_record(t) then rawerror(name .. ": a table of your own was expected", 3) end
end

local safe_table = {
  insert = function(t, ...) writable(t, "table.insert") return insert(t, ...) end,
  remove = function(t, ...) writable(t, "table.remove") return remove(t, ...) end,
  sort = function(t, less) writable(t, "table.sort") return sort(t, less) end,
  concat = function(t, sep, i, j)
    if is_list(t) then
      local copy = {}
      for k = 1, #t do copy[k] = t[k] end
      t = copy
    end
    writable(t, "table.concat")
    return concat(t, sep, i, j)
  end,
  unpack = function(t, i, j)
    i, j = i or 1, j or #t
    if j - i >= 1000 then rawerror("table.unpack: at most 1,000 values", 2) end
    if is_list(t) then
      local copy = {}
      for k = i, j do copy[k] = t[k] end
      t = copy
    end
    writable(t, "table.unpack")
    return unpack(t, i, j)
  end,
}

local function plain_arguments(n, ...)
  local args = { ... }
  for i = 1, n do
    local t = rawtype(args[i])
    if t == "table" or t == "function" or t == "userdata" or t == "thread" then args[i] = tostring(args[i]) end
  end
  return unpack(args, 1, n)
end

local format, rep = string.format, string.rep
local safe_string = {
  format = function(pattern, ...)
    if rawtype(pattern) ~= "string" then rawerror("string.format: a string was expected", 2) end
    if native_string.find(pattern:gsub("%%%%", ""), "%%[^%a]*p") then rawerror("string.format: %p shows addresses", 2) end
    return format(pattern, plain_arguments(native_string.len(pattern) and select("#", ...), ...))
  end,
  rep = function(s, n, sep)
    if rawtype(s) ~= "string" and rawtype(s) ~= "number" then rawerror("string.rep: a string was expected", 2) end
    n = floor(tonumber(n) or 0)
    if n ~= n or (#rawtostring(s) + #(sep or "")) * n > LONGEST_STRING then rawerror("string.rep: result too long", 2) end
    return rep(s, n, sep)
  end,
}

-- The allow-list --------------------------------------------------------------------------------------------------------------

-- pure: functions of their arguments alone
local PURE = {
  string = { "byte", "char", "find", "gmatch", "gsub", "len", "lower", "match", "reverse", "sub", "upper" },
  math = { "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "huge", "ldexp",
    "log", "log10", "max", "min", "modf", "pi", "pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh" },
}
-- seeded: reseeded from the question before every decision, so that a replay draws the same numbers
local SEEDED = { math = { "random" } }
-- control: they raise, catch or convert, and show nothing of the host
local CONTROL = { assert = assert, error = error, pcall = pcall, select = select, tonumber = tonumber }
-- ours: rewritten so that views stay closed, keys come in order and no address shows
local OURS = { ipairs = ipairs, next = next, pairs = pairs, tostring = tostring, type = type }
-- constants; sizes as everywhere else in Headgate: KB, MB, GB are powers of 1000, KiB, MiB, GiB powers of 1024
local CONSTANTS = { KB = 1e3, MB = 1e6, GB = 1e9, KiB = 1024, MiB = 1048576, GiB = 1073741824, _VERSION = "Lua 5.1" }
-- Names that must not resolve; the start-up check walks them.
local FORBIDDEN = { "os", "io", "debug", "package", "require", "module", "load", "loadstring", "loadfile", "dofile", "ffi", "jit",
  "bit", "python", "newproxy", "getfenv", "setfenv", "getmetatable", "setmetatable", "rawget", "rawset", "rawequal", "rawlen",
  "collectgarbage", "gcinfo", "coroutine", "print", "xpcall", "unpack" }

local function library(native, names, extra)
  local t = {}
  for _, name in rawipairs(names) do
    if native[name] == nil then rawerror("sandbox: " .. name .. " is missing") end
    t[name] = native[name]
  end
  for name, f in rawnext, extra do t[name] = f end
  return t
end

-- A library as a policy sees it: reads go straight to the hidden table, writes raise.
local function sealed(data)
  return setmetatable({ [KEY] = data }, { __index = data, __newindex = views.refuse, __metatable = false })
end
M.sealed = sealed

local string_data = library(native_string, PURE.string, safe_string)
local base = {
  string = sealed(string_data),
  table = sealed(safe_table),
  math = sealed(library(native_math, PURE.math, { random = native_math[SEEDED.math[1]] })),
}
for _, part in rawipairs({ CONTROL, OURS, CONSTANTS }) do
  for name, value in rawnext, part do base[name] = value end
end
M.base = base

-- Methods of strings are the safe ones too, and nobody can reach their metatable.
local string_meta = getmetatable("")
string_meta.__index = string_data
string_meta.__metatable = false

-- A fresh set of globals: writable until `freeze` is called, then closed for good. `storage` never leaves this file's callers.
function M.environment()
  local storage = setmetatable({}, { __index = base })
  local open = true
  local env
  env = setmetatable({ [KEY] = storage }, {
    __index = storage,
    __newindex = function(_, k, v)
      if not open then rawerror("globals are frozen after loading: cannot write '" .. tostring(k) .. "'", 2) end
      if k == "_G" then rawerror("'_G' cannot be replaced", 2) end
      storage[k] = v
    end,
    __metatable = false,
  })
  storage._G = env
  return env, storage, function() open = false end
end

local function must(condition, what) if not condition then rawerror("sandbox check failed: " .. what) end end

-- Start-up check: the allow-list is what is there, no more and no less.
function M.verify()
  local env = M.environment()
  for _, name in rawipairs(FORBIDDEN) do must(env[name] == nil, name .. " is visible") end
  for name, value in rawnext, base do must(env[name] == value, name .. " is missing") end
  for _, name in rawipairs({ "dump" }) do must(env.string[name] == nil and (""):len() == 0, "string." .. name) end
  must(not pcall(function() env.string.rep = 1 end), "string can be written")
  must(not tostring({}):find("0x"), "tostring shows addresses")
  must(not pcall(function() return ("%p"):format({}) end), "format shows addresses")
  must((""):find("", 1, true) == 1, "string methods work")
end
