-- a test function that raises
function schedule(context)
  pcall(context.helpers.filter_jobs, function() error('x') end)
  return { action = "wait" }
end
