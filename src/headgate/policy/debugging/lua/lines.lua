-- Which lines of a loaded policy have code: only there can a breakpoint stand.
local hg = ...
local policies = hg.policies
local util = require("jit.util")
local funcinfo, funck = util.funcinfo, util.funck
local M = {}
hg.lines = M

local WHO = { policy = "user", platform = "platform" }
local known = {}

local function collect(func, lines)
  local info = funcinfo(func)
  for pc = 1, info.bytecodes - 1 do
    local line = funcinfo(func, pc).currentline
    if line and line > 0 then
      lines[line] = true
      if line > lines.last then lines.last = line end
    end
  end
  for i = 1, info.gcconsts do
    local constant = funck(func, -i)
    if type(constant) == "proto" then collect(constant, lines) end
  end
  return lines
end

-- The first line with code from here on; nil if there is none.
function M.next_with_code(chunk, line)
  local func = WHO[chunk] and policies.chunk(WHO[chunk])
  if not func then return nil end
  known[func] = known[func] or collect(func, { last = 0 })
  local lines = known[func]
  for at = line, lines.last do
    if lines[at] then return at end
  end
  return nil
end
