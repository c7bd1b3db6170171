-- an answer that contains itself
function schedule(context)
  local t = { action = "batch" }
  t.actions = { t }
  return t
end
