-- a string that grows for ever
function schedule(context)
  local s = 'x' while true do s = s .. s end
  return { action = "wait" }
end
