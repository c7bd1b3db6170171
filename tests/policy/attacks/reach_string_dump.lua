-- get bytecode of a helper
local function attempt(context)
  return string.dump(context.helpers.find_worker) or (''):dump()
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
