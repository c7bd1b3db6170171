-- The debugger proper: stops a policy at breakpoints, steps, errors and on demand, and answers questions while it stands.
-- A hook on every line does it; compiled code has no hooks, so the compiler is off. Commands are lists: number, name, arguments.
local hg = ...
local link, showing, frames, lines, asking, sandbox = hg.link, hg.showing, hg.frames, hg.lines, hg.asking, hg.sandbox
local M = {}
hg.stepping = M

local sethook, getinfo = debug.sethook, debug.getinfo
local breakpoints = { policy = {}, platform = {} }
local catching = {} -- "caught", "uncaught"
local mode, mode_depth, mode_line -- in, over, out, entry, pause; nil runs on
local shown_lines -- line of the Lua -> line of the source it was made from, 0 where there is none; nil: the same
local stack -- frames while the policy stands still
local running = false
local returned, last_lines = false, {} -- since the last line of the policy; its last line at each depth

-- What is shown of a line; 0 for one that has no counterpart.
local function shown(chunk, line, main)
  if chunk ~= "policy" or not shown_lines then return line end
  return not main and shown_lines[line] or 0
end

-- Commands ---------------------------------------------------------------------------------------------------------------------

local function frame_of(number)
  if not stack then error("the policy is running", 0) end
  if number == 0 then return stack[1] end
  return stack[number] or error("there is no frame " .. tostring(number), 0)
end

-- Hits: "5" is the fifth, ">= 5", "% 5" every fifth.
local function count_test(given)
  if given == "" then return nil end
  local op, number = given:match("^%s*([<>=%%]*)%s*(%d+)%s*$")
  number = tonumber(number)
  local tests = {
    [""] = function(n) return n == number end, ["="] = function(n) return n == number end,
    ["=="] = function(n) return n == number end, [">"] = function(n) return n > number end,
    [">="] = function(n) return n >= number end, ["<"] = function(n) return n < number end,
    ["<="] = function(n) return n <= number end, ["%"] = function(n) return number > 0 and n % number == 0 end,
  }
  return number and tests[op] or error("a count such as 5, >= 5 or % 5 was expected, not " .. given, 0)
end

local RESUME = { continue = true, over = true, ["in"] = true, out = true, entry = true }
local commands = {}

-- Replaces the breakpoints of one source; for each the line it got and what is wrong with it.
function commands.breakpoints(chunk, wanted)
  local set, said = {}, {}
  for i, given in ipairs(wanted) do
    local line = lines.next_with_code(chunk, given[1])
    local ok, test = pcall(count_test, given[3])
    local valid, why = true, ""
    if given[2] ~= "" then valid, why = loadstring("return " .. given[2], "=condition") end
    if not line then said[i] = { 0, "no line with code from here on" }
    elseif not ok then said[i] = { 0, test }
    elseif not valid then said[i] = { 0, why }
    else
      set[line] = { number = given[5], condition = given[2], test = test, log = given[4], hits = 0 }
      said[i] = { line, "" }
    end
  end
  breakpoints[chunk] = set
  return said
end
function commands.exceptions(names)
  catching = {}
  for _, name in ipairs(names) do catching[name] = true end
  return {}
end
function commands.map(table_of_lines)
  shown_lines = #table_of_lines > 0 and table_of_lines or nil
  return {}
end
function commands.pause()
  mode = "pause"
  return {}
end
function commands.stack()
  frame_of(0)
  local rows = {}
  for i, frame in ipairs(stack) do
    rows[#rows + 1] = { i, frame.name, frame.chunk, frame.line, shown(frame.chunk, frame.line, frame.main) }
  end
  return rows
end
function commands.scopes(number) return frames.scopes(frame_of(number)) end
function commands.variables(handle, start, count)
  frame_of(0)
  return showing.open(handle, start, count)
end
function commands.evaluate(number, expression)
  local ok, value = frames.evaluate(frame_of(number), expression)
  if not ok then error(value, 0) end
  return showing.row("", value)
end

-- Carries out one command; true when the policy is to go on.
local function obey(command)
  local number, name = command[1], command[2]
  if RESUME[name] then
    mode = name ~= "continue" and name or nil
    link.send("R", { number, true, {} })
    return true
  end
  local act = commands[name] or function() error("there is no command " .. tostring(name), 0) end
  local ok, result = pcall(act, command[3], command[4], command[5])
  link.send("R", { number, ok, ok and result or { tostring(result) } })
  return false
end

local function stand()
  while not obey(link.receive(true)) do end
end

-- Stopping ---------------------------------------------------------------------------------------------------------------------

local hook
local function stop(reason, text, number)
  sethook()
  stack = frames.snapshot()
  local top = stack[1]
  mode, mode_depth, mode_line = nil, #stack, top and shown(top.chunk, top.line, top.main) or 0
  showing.reset()
  link.send("S", { reason, text, number or 0 })
  stand()
  stack = nil
  if running then sethook(hook, "lcr") end
end

local function poll()
  local command = link.receive(false)
  while command do
    obey(command)
    command = link.receive(false)
  end
end

local function interpolate(text, frame)
  return (text:gsub("{(.-)}", function(expression)
    local ok, value = frames.evaluate(frame, expression)
    if not ok then return "{" .. tostring(value) .. "}" end
    return type(value) == "string" and value or showing.text(value)
  end))
end

-- Whether a breakpoint that was reached is to stop the policy.
local function hits(point)
  local frame
  if point.condition ~= "" then
    frame = frames.snapshot()[1]
    local ok, value = frames.evaluate(frame, point.condition)
    if not ok then link.send("O", { "condition '" .. point.condition .. "': " .. tostring(value) .. "\n" }) return true end
    if not value then return false end
  end
  point.hits = point.hits + 1
  if point.test and not point.test(point.hits) then return false end
  if point.log == "" then return true end
  link.send("O", { interpolate(point.log, frame or frames.snapshot()[1]) .. "\n" })
  return false
end

local function arrived(line, main)
  if mode == "pause" then return true end
  if line == 0 or (mode == "entry" and main) then return false end
  if mode == "entry" then return true end
  local depth = frames.depth()
  if mode == "out" then return depth < mode_depth end
  if mode == "over" and depth > mode_depth then return false end
  return not shown_lines or line ~= mode_line
end

-- When a call comes back, the line that made it is reported once more; only a jump back makes it a new visit.
local function comes_back(line)
  local depth, after_call = frames.depth(), returned
  local same = after_call and last_lines[depth] == line
  returned, last_lines[depth] = false, line
  for deeper = depth + 1, #last_lines do last_lines[deeper] = nil end
  return same
end

function hook(event, line)
  local info = getinfo(2, "S")
  local chunk = frames.chunk_of(info)
  if event ~= "line" then
    if event ~= "call" then returned = returned or info.what ~= "C"
    elseif chunk then returned = false end
    return
  end
  if not chunk then return end
  poll()
  if comes_back(line) and mode ~= "pause" then return end
  local main = info.what == "main"
  local at = shown(chunk, line, main)
  if at == 0 and mode and not main and frames.depth() == 1 then mode_line = 0 end -- between two rules: each may come again
  local point = breakpoints[chunk][line]
  if point and hits(point) then
    stop("breakpoint", "", point.number)
  elseif mode and arrived(at, main) then
    stop((mode == "pause" or mode == "entry") and mode or "step", "")
  end
end

-- Errors -----------------------------------------------------------------------------------------------------------------------

local function raised(kind, message)
  if not running or not catching[kind] or stack then return end
  if message:find("stack overflow", 1, true) or message:find("not enough memory", 1, true) then return end
  stop("exception", message)
end
local base = sandbox.base
local native_tostring = base.tostring
base.pcall = function(f, ...)
  return xpcall(f, function(message)
    raised("caught", native_tostring(message))
    return message
  end, ...)
end

-- One question -----------------------------------------------------------------------------------------------------------------

function M.enter()
  asking.on_error = function(message) raised("uncaught", message) end
  local ask = asking.ask
  asking.ask = function(who)
    link.send("B", {})
    running, returned, last_lines = true, false, {}
    stand()
    sethook(hook, "lcr")
    local answer = ask(who)
    sethook()
    running = false
    return answer
  end
end
