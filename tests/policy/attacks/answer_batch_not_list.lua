-- an answer with batch not list
function schedule(context)
  return { action = 'batch', actions = 7 }
end
