-- a test function that never returns
function schedule(context)
  context.helpers.filter_workers(function() while true do end end)
  return { action = "wait" }
end
