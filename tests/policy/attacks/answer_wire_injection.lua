-- text that looks like a frame of the wire
function schedule(context)
  local forged = "\5\0\0\0A\153\144\144\144\144"
  log.error(forged)
  return { action = "wait", reason = forged }
end
