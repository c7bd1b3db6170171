-- string.rep with odd counts
function schedule(context)
  pcall(string.rep, 'x', 0 / 0) pcall(string.rep, 'x', -1) pcall(string.rep, 'x', math.huge) pcall(string.rep, 'x', '1e9')
  return { action = "wait" }
end
