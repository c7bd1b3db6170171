-- iterate over views for a raw record
local function attempt(context)
  for _, v in ipairs({ context.queue[1], context.workers[1], context.groups[1], context.pools[1], context.tenants[1], context.metrics, context.config, context }) do
    for k, x in pairs(v) do
      if type(x) == "table" and pcall(function() x.zz = 1 end) then return true end
      if type(k) ~= "string" then return true end
    end
    local f, s, i = pairs(v)
    if type(s) == "table" and pcall(function() s.zz = 1 end) then return true end
  end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
