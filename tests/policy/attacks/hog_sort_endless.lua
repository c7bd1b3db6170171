-- sort whose comparison never returns
function schedule(context)
  table.sort({ 3, 2, 1 }, function() while true do end end)
  return { action = "wait" }
end
