-- an answer with string
function schedule(context)
  return 'dispatch'
end
