-- table.move over a huge range
function schedule(context)
  table.move({ 1 }, 1, 2 ^ 52, 2)
  return { action = "wait" }
end
