-- keep the compiler busy with ever new closures
function schedule(context)
  for i = 1, 1e6 do local f = function(n) local s = 0 for k = 1, n do s = s + k * i end return s end f(60) end
  return { action = "wait" }
end
