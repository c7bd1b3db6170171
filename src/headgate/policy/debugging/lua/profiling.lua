-- A profile: LuaJIT's sampling profiler looks at the stack about once a millisecond of processor time while decisions are made
-- one after another, compiled code included. The timer is set before the lockdown, which forbids setting one.
local hg = ...
local link, asking = hg.link, hg.asking
local profile = require("jit.profile")
local M = {}
hg.profiling = M

local dumpstack, clock_us = profile.dumpstack, hg.codec.clock_us
local DEEP, FEW = 64, 500
local stacks, asked, took, active = {}, 0, 0, false

local function sample(thread, samples)
  if not active then return end
  local stack = dumpstack(thread, "f\1l\2", DEEP)
  stacks[stack] = (stacks[stack] or 0) + samples
end

local function report()
  local rows = {}
  for stack, samples in next, stacks do
    rows[#rows + 1] = { stack, samples }
    if #rows >= FEW then
      link.send("P", { asked, took, rows })
      rows = {}
    end
  end
  link.send("P", { asked, took, rows })
end

-- The last question of a frame ends the profile; Python sends all of them in one frame, so that nothing but decisions is sampled.
function M.enter()
  local feed, ask = hg.feed, asking.ask
  asking.ask = function(who)
    local began = clock_us()
    local answer = ask(who)
    asked, took = asked + 1, took + clock_us() - began
    return answer
  end
  hg.feed = function(frame, who)
    asked, took, stacks, active = 0, 0, {}, true
    local answer = feed(frame, who)
    active = false
    if asked > 0 then report() end
    return answer
  end
  profile.start("fli1", sample)
end
