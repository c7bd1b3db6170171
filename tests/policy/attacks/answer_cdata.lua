-- an answer with foreign-function numbers
function schedule(context)
  return { action = "wait", retry_after_ms = 5LL }
end
