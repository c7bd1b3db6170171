-- nearly as slow as allowed, every time
function schedule(context)
  local x = 0 for i = 1, 1e7 do x = (x + i) % 1000003 end
  return { action = "wait" }
end
