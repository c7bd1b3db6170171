-- many allowed strings at once
function schedule(context)
  local t = {} for i = 1, 1e6 do t[i] = ('x'):rep(1000000) .. i end
  return { action = "wait" }
end
