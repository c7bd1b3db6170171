-- Loaded policies. A policy's main chunk runs afresh for every question: whatever it remembers in locals lasts one cycle, so the
-- same view and the same seed give the same answer in any process, which is what makes a decision replayable.
local hg = ...
local sandbox = hg.sandbox
local M = {}
hg.policies = M

local loadstring, setfenv, rawget = loadstring, setfenv, rawget
local chunks, sources = {}, {}
local platform_schedule, platform_context

local function instantiate(chunk)
  local env, storage, freeze = sandbox.environment()
  setfenv(chunk, env)
  chunk()
  freeze()
  return rawget(storage, "schedule"), storage
end

-- Compiles and tries out a source; returns nil, or kind and message.
function M.load(who, source, name)
  if source:byte(1) == 27 then return "bytecode", "compiled Lua is refused" end
  local chunk, message = loadstring(source, "=" .. name)
  if not chunk then return "syntax", message end
  local ok, schedule = pcall(instantiate, chunk)
  if not ok then
    local message = sandbox.base.tostring(schedule)
    return message:find("not enough memory", 1, true) and "memory" or "error", message
  end
  if type(schedule) ~= "function" then return "schedule", "the policy defines no function schedule(context)" end
  chunks[who], sources[who] = chunk, source
  return nil
end

function M.check_syntax(source, name)
  if source:byte(1) == 27 then return "compiled Lua is refused" end
  local chunk, message = loadstring(source, "=" .. name)
  if not chunk then return message end
  return nil
end

function M.fresh(who)
  local chunk = chunks[who]
  if not chunk then error({ invalid = "no policy is loaded" }, 0) end
  return (instantiate(chunk))
end
function M.chunk(who) return chunks[who] end
function M.forget() platform_schedule = nil end

-- The built-in policy at hand: one instance per question, made when it is first called.
sandbox.base.platform = sandbox.sealed({
  schedule = function(context)
    if not platform_schedule then platform_schedule = instantiate(chunks.platform) end
    return platform_schedule(context)
  end,
  get_source = function() return sources.platform end,
})
