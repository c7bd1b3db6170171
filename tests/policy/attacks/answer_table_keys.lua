-- an answer with table keys
function schedule(context)
  return { [{}] = 1 }
end
