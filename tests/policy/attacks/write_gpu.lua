-- write to gpu
local function attempt(context)
  context.pools[1].gpus[1].vram_free = 1e12 return true
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
