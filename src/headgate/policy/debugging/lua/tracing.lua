-- A trace: every line of the policy that runs, the calls it makes into the library, and the variables that changed since its last
-- line. Rows are lists: kind, depth, chunk, line, name, text.
local hg = ...
local link, showing, frames, asking = hg.link, hg.showing, hg.frames, hg.asking
local M = {}
hg.tracing = M

local sethook, getinfo, getlocal, getupvalue, upvalueid = debug.sethook, debug.getinfo, debug.getlocal, debug.getupvalue, debug.upvalueid
local concat = table.concat
local FEW, MOST_ROWS = 500, 100000
local QUIET = { ["=sandbox"] = true, ["=views"] = true, ["=asking"] = true, ["=speech"] = true, ["=tracing"] = true }
local rows, total = {}, 0
local upvalues = {}
local active = {} -- by depth: the function and what its variables showed when we last looked

local function flush()
  link.send("T", rows)
  rows = {}
end
local function put(...)
  total = total + 1
  if total > MOST_ROWS then return end
  rows[#rows + 1] = { ... }
  if #rows >= FEW then flush() end
end

local function note(at, depth, chunk, name, shows, before, value)
  if before == shows or (before == nil and value == nil) then return end
  put("set", depth, chunk, at.line, name, shows)
end

-- Variables of the functions around are known by their identity: they outlive the call that looks at them.
local function around(at, func, depth, chunk)
  local i = 1
  while true do
    local name, value = getupvalue(func, i)
    if not name then return end
    if type(value) ~= "function" then
      local id, shows = upvalueid(func, i), showing.text(value)
      local before = upvalues[id]
      upvalues[id] = shows
      if before then note(at, depth, chunk, name, shows, before, value) end
    end
    i = i + 1
  end
end

-- Variables of the function at a level that look different now.
local function changes(level, func, depth, chunk)
  local at = active[depth]
  if not at or at.func ~= func then at = { func = func, seen = {}, line = 0 } end
  active[depth], active[depth + 1] = at, nil
  local i = 1
  while true do
    local name, value = getlocal(level + 1, i)
    if not name then break end
    if name:sub(1, 1) ~= "(" and type(value) ~= "function" then
      local shows = showing.text(value)
      note(at, depth, chunk, name, shows, at.seen[name], value)
      at.seen[name] = shows
    end
    i = i + 1
  end
  if at.line > 0 then around(at, func, depth, chunk) end
  return at
end

local function on_line(line)
  local info = getinfo(3, "Sfn")
  local chunk = frames.chunk_of(info)
  if not chunk then return end
  local depth = frames.depth()
  local at = changes(3, info.func, depth, chunk)
  at.line = line
  put("line", depth, chunk, line, info.what == "main" and "main chunk" or info.name or "?", "")
end

local function arguments(level, count)
  local shown = {}
  for i = 1, count do
    local _, value = getlocal(level + 1, i)
    shown[i] = showing.text(value, 1)
  end
  return concat(shown, ", ")
end

-- A call from the policy into the library; views that are read are calls too, but not the author's.
local function on_call()
  local info, caller = getinfo(3, "nSu"), getinfo(4, "Sl")
  if frames.chunk_of(info) then active[frames.depth()] = nil end -- a new call knows nothing of the last one
  local chunk = caller and frames.chunk_of(caller)
  if not chunk then return end
  if not info.name or info.namewhat == "metamethod" or frames.chunk_of(info) or QUIET[info.source] or info.what == "C" then return end
  put("call", frames.depth(), chunk, caller.currentline, info.name, arguments(3, info.nparams or 0))
end

-- No tail calls here: levels of the stack are counted from this function.
local function hook(event, line)
  if event == "line" then on_line(line) else on_call() end
end

function M.enter()
  local ask = asking.ask
  asking.ask = function(who)
    rows, total, active, upvalues = {}, 0, {}, {}
    sethook(hook, "lc")
    local answer = ask(who)
    sethook()
    if total > MOST_ROWS then rows[#rows + 1] = { "cut", 0, "", 0, "", tostring(total - MOST_ROWS) } end
    flush()
    return answer
  end
end
