-- an answer with a million rows
function schedule(context)
  local rows = {}
  for i = 1, 1e6 do rows[i] = { action = "dispatch", job_id = "j" .. i, worker_id = "w" } end
  return { action = "batch", actions = rows }
end
