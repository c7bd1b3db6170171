-- recursion through the callback of gsub
function schedule(context)
  local function f() return (('x'):gsub('x', f)) end f()
  return { action = "wait" }
end
