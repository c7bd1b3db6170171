-- keep state in locals between decisions
local calls = 0
function schedule(context)
  calls = calls + 1
  if calls > 100 then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
