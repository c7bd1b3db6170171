-- leak an address or the process through table concat
local function attempt(context)
  return table.concat({ {} })
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
