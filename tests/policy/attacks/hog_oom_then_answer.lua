-- run out of memory, catch it, answer
function schedule(context)
  pcall(function() local t = {} for i = 1, 1e9 do t[i] = { i } end end)
  return { action = "wait" }
end
