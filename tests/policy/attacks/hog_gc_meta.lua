-- finalisers on tables
function schedule(context)
  local t = setmetatable({}, { __gc = function() while true do end end })
  return { action = "wait" }
end
