-- a table with huge sparse keys
function schedule(context)
  local t = {} for i = 1, 1e9 do t[i * 2 ^ 20] = i end
  return { action = "wait" }
end
