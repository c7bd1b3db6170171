-- pcall calling itself
function schedule(context)
  local function f() pcall(f) pcall(f) end f()
  return { action = "wait" }
end
