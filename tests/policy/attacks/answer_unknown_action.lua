-- an answer with unknown action
function schedule(context)
  return { action = 'rm -rf' }
end
