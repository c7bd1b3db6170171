-- table.insert without end
function schedule(context)
  local t = {} while true do table.insert(t, 1, 1) end
  return { action = "wait" }
end
