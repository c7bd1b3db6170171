-- Values as a debugger shows them: a short text each, and their parts on demand. Views are read through the doors that a policy
-- has, so looking changes nothing; a policy cannot set metatables, so looking runs none of its code.
local hg = ...
local views, sandbox = hg.views, hg.sandbox
local M = {}
hg.showing = M

local getinfo, sort, concat, floor = debug.getinfo, table.sort, table.concat, math.floor
local is_record, is_list, hidden = views.is_record, views.is_list, views.hidden
local LONGEST, MOST_PREVIEWED, MOST_PARTS = 120, 4, 1000
local VISIBLE = { ["=policy"] = "policy", ["=platform"] = "platform", ["=expression"] = "expression" }

local function quoted(s)
  local cut = #s > LONGEST and s:sub(1, LONGEST) .. "..." or s
  return '"' .. cut:gsub('[%c"\\]', function(c)
    return c == "\n" and "\\n" or c == '"' and '\\"' or c == "\\" and "\\\\" or ("\\%d"):format(c:byte())
  end) .. '"'
end

local function number(v)
  if v == floor(v) and v > -1e15 and v < 1e15 then return ("%.0f"):format(v) end
  return ("%.14g"):format(v)
end

local function function_text(f)
  local info = getinfo(f, "S")
  local chunk = VISIBLE[info.source]
  return chunk and "function " .. chunk .. ":" .. info.linedefined or "function (built in)"
end

local RANK = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local x, y = RANK[type(a)] or 4, RANK[type(b)] or 4
  if x ~= y then return x < y end
  if x < 3 then return a < b end
  if x == 3 then return b and not a end
  return false
end

-- Names of the parts of a value, in a stable order; for lists how many there are.
local function keys_of(value)
  if is_record(value) then
    local fields = views.fields_of(value)
    if fields then return fields end
    value = hidden(value)
    if type(value) ~= "table" then return {} end
  end
  local keys = {}
  for k in next, value do keys[#keys + 1] = k end
  sort(keys, before)
  return keys
end

local text
local function key_text(k)
  if type(k) == "string" and k:find("^[%a_][%w_]*$") then return k end
  return "[" .. text(k, 2) .. "]"
end

local function preview(value, depth)
  if depth > 1 then return "{...}" end
  local shown, n = {}, #value
  if is_record(value) then n = 0 end
  for i = 1, n do
    if i > MOST_PREVIEWED then shown[#shown + 1] = "... " .. n .. " in all" break end
    shown[i] = text(value[i], depth + 1)
  end
  if n == 0 then
    local keys = keys_of(value)
    for i = 1, #keys do
      if i > MOST_PREVIEWED then shown[#shown + 1] = "..." break end
      shown[i] = key_text(keys[i]) .. " = " .. text(value[keys[i]], depth + 1)
    end
  end
  return "{" .. concat(shown, ", ") .. "}"
end

local function record_text(value, depth)
  local name = views.name_of(value)
  if not name and type(value.id) == "string" then return "{id = " .. quoted(value.id) .. ", ...}" end
  if not name then return preview(value, depth) end
  if name == "group" then return "group of " .. value.count .. " " .. value.class .. " jobs" end
  local id = name ~= "context" and name ~= "metrics" and value.id
  return id and name .. " " .. tostring(id) or name
end

function text(value, depth)
  depth = depth or 0
  local t = type(value)
  if t == "string" then return quoted(value) end
  if t == "number" then return number(value) end
  if t == "function" then return function_text(value) end
  if is_list(value) then return "list of " .. #value end
  if is_record(value) then return record_text(value, depth) end
  if t == "table" then return preview(value, depth) end
  return tostring(value)
end
M.text = text

function M.type_of(value)
  if is_list(value) then return "list" end
  return is_record(value) and views.name_of(value) or type(value)
end

-- Handles: what can be opened while the policy stands still --------------------------------------------------------------------

local handles = {}
function M.reset() handles = {} end

-- `parts` is a function(start, count) that returns rows.
function M.handle(parts)
  handles[#handles + 1] = parts
  return #handles
end

local row
local function rows_of_list(value)
  return function(start, count)
    local rows, n = {}, #value
    for i = start + 1, math.min(n, start + count) do rows[#rows + 1] = row("[" .. i .. "]", value[i]) end
    return rows
  end
end
local function rows_of_keys(value)
  return function(start, count)
    local rows, keys = {}, keys_of(value)
    for i = start + 1, math.min(#keys, start + count) do
      local part = value[keys[i]]
      if part ~= nil then rows[#rows + 1] = row(key_text(keys[i]), part) end
    end
    return rows
  end
end

-- A row: name, text, type, handle (0: nothing to open), number of items of a list.
function row(name, value)
  local t = type(value)
  if is_list(value) then return { name, text(value), M.type_of(value), M.handle(rows_of_list(value)), #value } end
  if t ~= "table" then return { name, text(value), M.type_of(value), 0, 0 } end
  local n = not is_record(value) and #value or 0
  if n > 0 and next(value, n) == nil and #keys_of(value) == n then
    return { name, text(value), "table", M.handle(rows_of_list(value)), n }
  end
  return { name, text(value), M.type_of(value), M.handle(rows_of_keys(value)), 0 }
end
M.row = row

function M.open(handle, start, count)
  local parts = handles[handle]
  if not parts then error("there is no variable " .. tostring(handle), 0) end
  if not count or count <= 0 or count > MOST_PARTS then count = MOST_PARTS end
  return parts(start or 0, count)
end
