-- an error object that cannot be shown
function schedule(context)
  error({ {}, {} })
  return { action = "wait" }
end
