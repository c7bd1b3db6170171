-- an answer with mixed
function schedule(context)
  return { action = 'wait', 1, 2, 3 }
end
