-- One question, one frame: the policy is asked again and again, each time with its last answer applied to the view, until it
-- waits, an answer does not hold, or the number or the time is used up. Then the view is put back as the engine left it.
local hg = ...
local codec, views, mirror, fleet, helpers = hg.codec, hg.views, hg.mirror, hg.fleet, hg.helpers
local effects, sandbox, speech, policies = hg.effects, hg.sandbox, hg.speech, hg.policies
local M = {}
hg.asking = M

local traceback, randomseed, clock_us = debug.traceback, math.randomseed, codec.clock_us
local is_record, is_list = views.is_record, views.is_list
local MOST_NODES, MOST_DEPTH, LONGEST_TEXT = 20000, 6, 4096

-- The context ---------------------------------------------------------------------------------------------------------------

local context_data = { queue = mirror.queue, groups = mirror.groups, helpers = sandbox.sealed(helpers),
  catalog = fleet.catalog, metrics = fleet.metrics_view }
local dynamic = {
  now = function() return mirror.now end,
  time = function() return mirror.time end,
  pools = function() return fleet.pool_list() end,
  workers = function() return fleet.worker_list() end,
  tenants = function() return fleet.tenant_list() end,
  config = function() return fleet.config_view end,
}
local FIELDS = { "queue", "groups", "pools", "workers", "tenants", "metrics", "catalog", "config", "now", "time", "helpers" }
local context = views.family("context", FIELDS, function(_, k)
  local value = context_data[k]
  if value ~= nil then return value end
  local read = dynamic[k]
  return read and read()
end)(true)
M.context = context

-- Checking and writing answers ------------------------------------------------------------------------------------------------

local nodes
local function refuse(why) error({ invalid = why }, 0) end

local write
-- The fields of an action in a fixed order; false when there are others, which take the slow way.
local function write_action(value)
  local total = 0
  for _ in next, value do total = total + 1 end
  local a, j, w, r = value.action, value.job_id, value.worker_id, value.reason
  local known = (a ~= nil and 1 or 0) + (j ~= nil and 1 or 0) + (w ~= nil and 1 or 0) + (r ~= nil and 1 or 0)
  if known ~= total then return false end
  codec.map(total)
  if a ~= nil then codec.text("action") write(a, 2) end
  if j ~= nil then codec.text("job_id") write(j, 2) end
  if w ~= nil then codec.text("worker_id") write(w, 2) end
  if r ~= nil then codec.text("reason") write(r, 2) end
  nodes = nodes + total
  return true
end

local function write_table(value, depth)
  if depth > MOST_DEPTH then refuse("nested too deeply (a cycle?)") end
  if is_record(value) then refuse("a view is not an answer; use its id") end
  local n, total = #value, 0
  for _ in next, value do total = total + 1 end
  nodes = nodes + total
  if nodes > MOST_NODES then refuse("too many values") end
  if n > 0 or total == 0 then
    if n ~= total then refuse("a table is both a list and a record") end
    codec.array(n)
    for i = 1, n do write(value[i], depth + 1) end
    return
  end
  for k in next, value do
    if type(k) ~= "string" then refuse("keys have to be strings") end
  end
  codec.map(total)
  for k, v in sandbox.base.pairs(value) do
    write(k, depth + 1)
    write(v, depth + 1)
  end
end

function write(value, depth)
  local t = type(value)
  if t == "string" then
    if #value > LONGEST_TEXT then refuse("a text is longer than " .. LONGEST_TEXT .. " bytes") end
    codec.text(value)
  elseif t == "number" then codec.number(value)
  elseif t == "boolean" then codec.bool(value)
  elseif t == "nil" then codec.none()
  elseif t == "table" then write_table(value, depth)
  else refuse("a " .. (is_list(value) and "list of the context" or t) .. " is not an answer") end
end

-- Applies one answer to the view; true when asking on makes sense.
local apply
local appliers = {
  dispatch = function(a) return effects.dispatch(a.job_id, a.worker_id) end,
  evict = function(a) return effects.evict(a.evict_worker_id) end,
  start_worker = function(a)
    local s = a.start_worker
    return type(s) == "table" and effects.start_worker(s.model_ref, s.pool_id, s.gpu_id)
  end,
  preempt = function(a) return type(a.victims) == "table" and effects.preempt(a.job_id, a.victims) end,
  batch = function(a)
    if type(a.actions) ~= "table" then return false end
    for i = 1, #a.actions do
      local one = a.actions[i]
      if type(one) ~= "table" or one.action == "batch" or not apply(one) then return false end
    end
    return #a.actions > 0
  end,
}
function apply(answer)
  if type(answer) ~= "table" then return false end
  local f = appliers[answer.action]
  return f and f(answer) or false
end

-- The loop --------------------------------------------------------------------------------------------------------------------

local function collect(schedule, question, answers)
  local deadline = clock_us() + question.budget_ms * 1000
  for i = 1, question.max_answers do
    local answer = schedule(context)
    if answer == nil then return "wait" end
    if is_list(answer) then refuse("a list of the context is not an answer") end
    if type(answer) ~= "table" then refuse("an answer has to be a table, not a " .. type(answer)) end
    if is_record(answer) then refuse("a view is not an answer; use its id") end
    answers[i] = answer
    if answer.action == "wait" then return "wait" end
    if not apply(answer) then return "refusal" end
    if clock_us() > deadline then return "budget" end
  end
  return "limit"
end

local function clean(message)
  if type(message) == "string" then return (message:sub(1, LONGEST_TEXT):gsub("0x%x+", "?"):gsub("[\128-\255%z]", "?")) end
  return "error object of type " .. type(message)
end

local function handler(message)
  if type(message) == "table" and message.invalid and not is_record(message) then
    return { kind = "invalid", message = clean(message.invalid), trace = "" }
  end
  if type(message) == "string" and message:find("not enough memory", 1, true) then
    return { kind = "memory", message = "not enough memory", trace = "" }
  end
  if M.on_error then M.on_error(clean(message)) end -- a debugger looks while the stack still stands
  return { kind = "error", message = clean(message), trace = clean(traceback("", 2)) }
end

-- The handler itself may have failed (stack or memory exhausted); then there is only a text.
local function as_failure(value)
  if type(value) == "table" then return value end
  return handler(value)
end

local function write_pairs(items, second)
  codec.array(#items)
  for i = 1, #items do
    codec.array(2)
    codec.text(items[i][1])
    second(items[i][2])
  end
end

local function safe_text(s) codec.text((s:gsub("[\128-\255%z]", "?"))) end

-- Answer: actions, trace, logs, metrics, error, took_us, runtime, stopped, dropped.
local function write_answer(answers, failure, started, stopped)
  codec.begin()
  codec.array(9)
  nodes = 0
  codec.array(#answers)
  for i = 1, #answers do
    if not write_action(answers[i]) then write(answers[i], 1) end
  end
  codec.array(#speech.steps)
  for i = 1, #speech.steps do safe_text(speech.steps[i]) end
  write_pairs(speech.logs, safe_text)
  write_pairs(speech.metrics, codec.number)
  if failure then
    codec.array(3)
    codec.text(failure.kind)
    codec.text(failure.message)
    codec.text(failure.trace)
  else
    codec.none()
  end
  codec.number(math.floor(clock_us() - started))
  codec.text(hg.runtime)
  codec.text(stopped)
  codec.number(speech.dropped)
  return codec.finish()
end

local function begin(question)
  mirror.now, mirror.seed = question.now_ms, question.seed
  mirror.time = views.window({ hour = question.hour, weekday = question.weekday })
  speech.begin()
  -- LuaJIT seeds from a double; the modulus keeps every bit that a double can carry.
  randomseed(question.seed % 9007199254740992)
end

-- Reads a Question from the open frame (its tag is already read) and answers it with the named policy.
function M.ask(who)
  local started = clock_us()
  local read = codec.read
  local question = { now_ms = read(), seed = read(), max_answers = read(), budget_ms = read(), hour = read(), weekday = read() }
  begin(question)
  local answers, stopped = {}, "error"
  local ok, failure = xpcall(function()
    local schedule = policies.fresh(who)
    stopped = collect(schedule, question, answers)
  end, handler)
  effects.undo()
  policies.forget()
  if not ok then return write_answer({}, as_failure(failure), started, "error") end
  local written, result = xpcall(write_answer, handler, answers, nil, started, stopped)
  if written then return result end
  return write_answer({}, as_failure(result), started, "error")
end
