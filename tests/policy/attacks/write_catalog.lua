-- write to catalog
local function attempt(context)
  context.catalog.models['llama-7b'].vram = 0 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
