-- a table nested without end
function schedule(context)
  local t = {} while true do t = { t } end
  return { action = "wait" }
end
