-- an endless goto
function schedule(context)
  ::again:: goto again
  return { action = "wait" }
end
