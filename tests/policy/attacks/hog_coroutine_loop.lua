-- an endless loop in a coroutine
function schedule(context)
  coroutine.wrap(function() while true do end end)()
  return { action = "wait" }
end
