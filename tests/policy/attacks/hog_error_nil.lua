-- raise nil
function schedule(context)
  error(nil)
  return { action = "wait" }
end
