-- raise bytes that are no text
function schedule(context)
  error('\255\0\1\254')
  return { action = "wait" }
end
