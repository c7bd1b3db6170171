-- What a policy may say beside its answer: log lines, metrics of its own, the path it took. Bounded per decision; what is over
-- the bound is counted, not kept.
local hg = ...
local sandbox, views = hg.sandbox, hg.views
local M = {}
hg.speech = M

local MOST_LINES, LONGEST_LINE, MOST_METRICS, MOST_STEPS = 64, 512, 64, 256
local base = sandbox.base
local concat, sub = table.concat, string.sub

function M.begin()
  M.logs, M.metrics, M.steps, M.dropped = {}, {}, {}, 0
end
M.begin()

local function line(level)
  return function(...)
    local logs = M.logs
    if #logs >= MOST_LINES then
      M.dropped = M.dropped + 1
      return
    end
    local parts = { ... }
    for i = 1, select("#", ...) do parts[i] = base.tostring(parts[i]) end
    logs[#logs + 1] = { level, sub(concat(parts, " "), 1, LONGEST_LINE) }
  end
end

local function emit(name, value)
  if type(name) ~= "string" or #name > 64 or not name:find("^[%a_][%w_%.]*$") then
    error("metrics.emit: the name has to be like my_metric", 2)
  end
  if type(value) ~= "number" or value ~= value or value == 1 / 0 or value == -1 / 0 then
    error("metrics.emit: the value has to be a finite number", 2)
  end
  local metrics = M.metrics
  if #metrics >= MOST_METRICS then
    M.dropped = M.dropped + 1
    return
  end
  metrics[#metrics + 1] = { name, value }
end

-- One step of the path through the rules; the YAML compiler writes one call per rule that matched.
local function step(name)
  local steps = M.steps
  if #steps < MOST_STEPS then steps[#steps + 1] = sub(base.tostring(name), 1, 128) end
end

base.log = sandbox.sealed({ debug = line("debug"), info = line("info"), warn = line("warn"), error = line("error") })
base.metrics = sandbox.sealed({ emit = emit })
base.trace = step
