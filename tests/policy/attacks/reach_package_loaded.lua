-- reach package loaded
local function attempt(context)
  return package.loaded.os or package.loaded._G
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
