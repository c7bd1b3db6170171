-- call the platform policy for ever
function schedule(context)
  while true do platform.schedule(context) end
  return { action = "wait" }
end
