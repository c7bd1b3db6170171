-- guess names of hidden fields
local function attempt(context)
  for _, k in ipairs({ 'slot', '_slot', 'KEY', 'hidden', 'public', 'queue', 'shape', 'leaf', 'raw_labels', 'indexed', 'running', 'free', 1, 0, true }) do for _, v in ipairs({ context.queue[1], context.groups[1], context.workers[1] }) do if v[k] ~= nil then return true end end end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
