-- reach getfenv walk
local function attempt(context)
  for level = 0, 30 do local e = getfenv(level) if e.os or e.io then return true end end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
