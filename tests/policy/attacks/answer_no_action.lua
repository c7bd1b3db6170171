-- an answer with no action
function schedule(context)
  return {}
end
