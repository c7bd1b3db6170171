-- keep a job's view and read it after the job is gone
local kept, id
function schedule(context)
  if kept and kept.id ~= nil and kept.id ~= id then return { action = "wait", reason = "ESCAPED" } end
  kept = context.queue[1]
  id = kept and kept.id
  return { action = "wait" }
end
