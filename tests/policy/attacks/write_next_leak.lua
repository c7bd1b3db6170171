-- use next for a raw record
local function attempt(context)
  local k, v = next(context.queue[1]) if type(k) ~= 'string' then return true end return pcall(function() local _, s = ipairs(context.queue) s[1] = 0 end)
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
