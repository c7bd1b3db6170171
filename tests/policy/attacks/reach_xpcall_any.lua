-- reach xpcall any
local function attempt(context)
  return xpcall(function() end, function() end)
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
