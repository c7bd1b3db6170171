-- string.rep of two gigabytes
function schedule(context)
  local s = ('x'):rep(2 ^ 31) return { action = 'wait', reason = s and 'ESCAPED' }
  return { action = "wait" }
end
