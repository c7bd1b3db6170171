-- an answer with action function
function schedule(context)
  return { action = print or type }
end
