-- reach module seeall
local function attempt(context)
  module('x', package.seeall) return os
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
