-- an error object that pretends to come from the runtime
function schedule(context)
  error({ invalid = { "x" }, kind = "memory", message = {}, trace = function() end })
end
