-- a for loop that never ends
function schedule(context)
  for i = 1, math.huge do local x = i % 7 end
  return { action = "wait" }
end
