-- emit what is not a number
function schedule(context)
  pcall(metrics.emit, 'x', 0 / 0) pcall(metrics.emit, 'x', 1 / 0) pcall(metrics.emit, 'x', {}) pcall(metrics.emit, {}, 1) pcall(metrics.emit, ('x'):rep(1000), 1) pcall(metrics.emit, '\255', 1)
  return { action = "wait" }
end
