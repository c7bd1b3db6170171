-- an answer with negative
function schedule(context)
  return { action = 'wait', retry_after_ms = -1 }
end
