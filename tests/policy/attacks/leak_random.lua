-- leak an address or the process through random
local function attempt(context)
  local a = math.random() return a ~= a
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
