-- repeated concat of a large table
function schedule(context)
  local t = {} for i = 1, 2e5 do t[i] = 'xxxxxxxxxx' end while true do table.concat(t) end
  return { action = "wait" }
end
