-- change views with the functions of table
local function attempt(context)
  for _, v in ipairs({ context.queue, context.queue[1], context.groups, context.pools, context.workers[1] }) do if pcall(table.insert, v, 1) or pcall(table.remove, v) or pcall(table.sort, v) then return true end end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
