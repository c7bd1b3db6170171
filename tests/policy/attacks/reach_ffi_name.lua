-- reach ffi name
local function attempt(context)
  return ffi.C or ffi.cdef('int system(const char *);')
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
