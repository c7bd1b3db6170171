-- an answer with bad utf8 reason
function schedule(context)
  return { action = 'wait', reason = '\255\254' }
end
