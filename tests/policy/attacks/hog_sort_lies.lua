-- sort with a lying comparison
function schedule(context)
  local t = {} for i = 1, 1e6 do t[i] = i * 7919 % 1000003 end pcall(table.sort, t, function() return true end) table.sort(t) table.sort(t)
  return { action = "wait" }
end
