-- an answer with nested batches
function schedule(context)
  local t = { action = 'wait' } for i = 1, 5 do t = { action = 'batch', actions = { t } } end return t
end
