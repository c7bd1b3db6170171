-- sort within sort
function schedule(context)
  local function f() table.sort({ 2, 1 }, function(a, b) f() return a < b end) end f()
  return { action = "wait" }
end
