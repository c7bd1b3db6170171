-- string.rep of two gigabytes
function schedule(context)
  do local s = ('x'):rep(2 ^ 31) return { action = 'wait', reason = s and 'ESCAPED' } end
  return { action = "wait" }
end
