-- reach debug setmetatable
local function attempt(context)
  return debug.setmetatable(nil, { __index = {} })
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
