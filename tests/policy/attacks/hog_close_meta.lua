-- __close and __index through setmetatable
function schedule(context)
  return setmetatable({}, { __index = function() while true do end end })
  return { action = "wait" }
end
