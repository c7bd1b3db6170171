-- an answer with newline ids
function schedule(context)
  return { action = 'evict', evict_worker_id = 'x\n{}\r\n' .. context.workers[1].id }
end
