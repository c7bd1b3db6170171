-- reach require any
local function attempt(context)
  for _, m in ipairs({'ffi', 'jit', 'jit.util', 'os', 'string.buffer', 'table.new', 'lupa', 'python'}) do local ok, r = pcall(require, m) if ok then return true end end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
