-- a looping error handler
function schedule(context)
  xpcall(function() error('x') end, function() while true do end end)
  return { action = "wait" }
end
