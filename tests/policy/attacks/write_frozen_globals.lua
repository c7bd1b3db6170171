-- write globals after loading
local function attempt(context)
  smuggled = 1 return smuggled == 1
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
