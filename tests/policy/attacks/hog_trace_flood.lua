-- flood the trace
function schedule(context)
  for i = 1, 1e6 do trace('step ' .. i) end
  return { action = "wait" }
end
