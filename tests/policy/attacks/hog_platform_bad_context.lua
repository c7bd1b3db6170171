-- the platform policy called with a forged context
function schedule(context)
  pcall(platform.schedule, {}) pcall(platform.schedule, { queue = {}, groups = {} }) pcall(platform.schedule)
  return { action = "wait" }
end
