-- an answer with bad utf8 action
function schedule(context)
  return { action = '\255' }
end
