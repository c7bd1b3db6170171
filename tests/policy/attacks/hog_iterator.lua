-- an iterator that never ends
function schedule(context)
  for x in function() return 1 end do local y = x end
  return { action = "wait" }
end
