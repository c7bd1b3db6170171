-- write through _G after loading
local function attempt(context)
  _G.schedule = nil _G.x = 1 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
