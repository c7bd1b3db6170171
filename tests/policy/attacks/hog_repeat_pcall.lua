-- an endless loop of pcall
function schedule(context)
  while true do pcall(error, 'x') end
  return { action = "wait" }
end
