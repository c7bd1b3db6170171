-- reach package searchers
local function attempt(context)
  return package.loaders[1] or package.searchers[1]
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
