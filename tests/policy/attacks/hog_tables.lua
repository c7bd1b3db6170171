-- a table of tables without end
function schedule(context)
  local t = {} for i = 1, 1e10 do t[i] = { i } end
  return { action = "wait" }
end
