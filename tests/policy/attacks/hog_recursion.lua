-- endless recursion
function schedule(context)
  local function f() return 1 + f() end f()
  return { action = "wait" }
end
