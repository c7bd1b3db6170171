-- __close and __index through setmetatable
function schedule(context)
  do return setmetatable({}, { __index = function() while true do end end }) end
  return { action = "wait" }
end
