-- an answer with ghost victim
function schedule(context)
  return { action = 'preempt', job_id = context.queue[1].id, victims = { 'ghost' } }
end
