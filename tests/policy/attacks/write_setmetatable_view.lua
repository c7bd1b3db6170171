-- replace the metatable of a view
local function attempt(context)
  setmetatable(context.queue[1], { __index = function() return 0 end }) return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
