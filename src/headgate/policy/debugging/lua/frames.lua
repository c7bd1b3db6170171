-- The stack as the author of a policy sees it: the policy's own functions and those of the platform policy; ours are left out.
-- Frames are copied when the policy stops, so nothing depends on how deep our own calls are.
local hg = ...
local showing, speech, asking, sandbox, views = hg.showing, hg.speech, hg.asking, hg.sandbox, hg.views
local M = {}
hg.frames = M

local getinfo, getlocal, getupvalue, loadstring, setfenv, getfenv = debug.getinfo, debug.getlocal, debug.getupvalue, loadstring, setfenv, getfenv
local VISIBLE = { ["=policy"] = "policy", ["=platform"] = "platform" }
local MOST_FRAMES = 200

function M.chunk_of(info) return VISIBLE[info.source] end

-- How many visible frames there are, seen from the caller of whoever calls this.
function M.depth()
  local n, level = 0, 3
  while true do
    local info = getinfo(level, "S")
    if not info then return n end
    if VISIBLE[info.source] then n = n + 1 end
    level = level + 1
  end
end

local function title(info)
  if info.what == "main" then return "main chunk" end
  return info.name or "function at line " .. info.linedefined
end

local function locals_at(level, frame)
  local i = 1
  while true do
    local name, value = getlocal(level + 1, i)
    if not name then return end
    if name:sub(1, 1) ~= "(" then
      frame.n = frame.n + 1
      frame.names[frame.n], frame.values[frame.n] = name, value
      frame.place[name] = frame.n -- of two with one name the inner one is meant
    end
    i = i + 1
  end
end

function M.snapshot()
  local found, level = {}, 2
  while #found < MOST_FRAMES do
    local info = getinfo(level, "nSlf")
    if not info then break end
    local chunk = VISIBLE[info.source]
    if chunk then
      local frame = { chunk = chunk, line = info.currentline, name = title(info), main = info.what == "main", func = info.func,
        n = 0, names = {}, values = {}, place = {} }
      locals_at(level, frame)
      found[#found + 1] = frame
    end
    level = level + 1
  end
  return found
end

-- Values of the functions around: name, value, name, value ...
local function each_upvalue(frame, visit)
  local i = 1
  while true do
    local name, value = getupvalue(frame.func, i)
    if not name then return end
    if visit(name, value) then return end
    i = i + 1
  end
end

-- Scopes ----------------------------------------------------------------------------------------------------------------------

local function slice(rows, start, count)
  local part = {}
  for i = start + 1, math.min(#rows, start + count) do part[#part + 1] = rows[i] end
  return part
end
local function locals_rows(frame)
  return function(start, count)
    local rows = {}
    for i = 1, frame.n do
      if frame.place[frame.names[i]] == i then rows[#rows + 1] = showing.row(frame.names[i], frame.values[i]) end
    end
    return slice(rows, start, count)
  end
end
local function upvalues_rows(frame)
  return function(start, count)
    local rows = {}
    each_upvalue(frame, function(name, value) rows[#rows + 1] = showing.row(name, value) end)
    return slice(rows, start, count)
  end
end
local function globals_rows(frame)
  return function(start, count)
    local rows, own = {}, views.hidden(getfenv(frame.func))
    local names = {}
    for name in next, own do if name ~= "_G" then names[#names + 1] = name end end
    table.sort(names)
    for _, name in ipairs(names) do rows[#rows + 1] = showing.row(name, own[name]) end
    return slice(rows, start, count)
  end
end

function M.scopes(frame)
  local context = showing.row("context", asking.context)
  return {
    { "Locals", showing.handle(locals_rows(frame)) },
    { "Upvalues", showing.handle(upvalues_rows(frame)) },
    { "Context", context[4] },
    { "Globals", showing.handle(globals_rows(frame)) },
  }
end

-- Expressions -----------------------------------------------------------------------------------------------------------------

local function environment(frame)
  return setmetatable({}, {
    __index = function(_, name)
      local place = frame and frame.place[name]
      if place then return frame.values[place] end
      local found, value = false, nil
      if frame then
        each_upvalue(frame, function(other, its)
          if other == name then found, value = true, its end
          return found
        end)
      end
      if found then return value end
      if frame then value = getfenv(frame.func)[name] else value = sandbox.base[name] end
      if value == nil and name == "context" then return asking.context end
      return value
    end,
    __newindex = function(_, name) error("an expression only reads: '" .. tostring(name) .. "' cannot be set", 2) end,
    __metatable = false,
  })
end

-- Chance belongs to the policy: a draw from outside would change what it draws next.
local math_data = views.hidden(sandbox.base.math)
local random, evaluating = math_data.random, false
math_data.random = function(...)
  if evaluating then error("an expression must not draw random numbers: the policy would draw others", 2) end
  return random(...)
end

-- Reads an expression in a frame; true and the value, or false and what is wrong. What it logs, emits or traces is not kept.
function M.evaluate(frame, expression)
  local chunk, message = loadstring("return " .. expression, "=expression")
  if not chunk then return false, message end
  setfenv(chunk, environment(frame))
  local logs, metrics, steps, dropped = speech.logs, speech.metrics, speech.steps, speech.dropped
  speech.begin()
  evaluating = true
  local ok, value = pcall(chunk)
  evaluating = false
  speech.logs, speech.metrics, speech.steps, speech.dropped = logs, metrics, steps, dropped
  if ok then return true, value end
  return false, type(value) == "string" and value or "error object of type " .. type(value)
end
