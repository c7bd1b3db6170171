-- small answers, each of them slow
function schedule(context)
  do for i = 1, 1e6 do local x = i % 3 end return { action = 'dispatch', job_id = context.queue[1].id, worker_id = context.workers[1].id } end
  return { action = "wait" }
end
