-- look for a Python object among the values handed over
local function attempt(context)
  for _, v in ipairs({ context, context.queue, context.helpers, platform, log, string }) do local ok, r = pcall(function() return v.__class__ or v.__init__ or v.__globals__ end) if ok and r then return true end end
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
