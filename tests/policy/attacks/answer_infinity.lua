-- an answer with infinity
function schedule(context)
  return { action = 'wait', retry_after_ms = 1 / 0 }
end
