-- raise with odd levels
function schedule(context)
  pcall(error, 'x', 1e9) pcall(error, 'x', -5) error('x', 1000)
  return { action = "wait" }
end
