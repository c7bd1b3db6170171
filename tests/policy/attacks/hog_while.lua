-- a plain endless loop
function schedule(context)
  while true do end
  return { action = "wait" }
end
