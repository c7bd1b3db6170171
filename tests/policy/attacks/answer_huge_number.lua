-- an answer with huge number
function schedule(context)
  return { action = 'wait', retry_after_ms = -1e300 }
end
