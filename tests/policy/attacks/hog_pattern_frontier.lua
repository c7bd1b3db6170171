-- endless frontier search
function schedule(context)
  while true do (('ab'):rep(1000)):find('%f[c]') end
  return { action = "wait" }
end
