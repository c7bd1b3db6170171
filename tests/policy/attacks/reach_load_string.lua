-- reach load string
local function attempt(context)
  return loadstring('return 1')() == 1
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
