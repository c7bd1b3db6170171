-- helpers called with nonsense
function schedule(context)
  for _, f in pairs(context.helpers) do for _, x in ipairs({ 0, 'x', {}, function() end, 0 / 0, context, context.queue, true }) do pcall(f, x, x, x) pcall(f) pcall(f, x) pcall(f, nil, x) end end
  return { action = "wait" }
end
