-- take the metatable of strings
local function attempt(context)
  return getmetatable('') or getmetatable('').__index
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
