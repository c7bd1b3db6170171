-- unpack of a huge range
function schedule(context)
  pcall(table.unpack, {}, 1, 1e8) pcall(table.unpack, {}, -1e8, 1e8) pcall(string.byte, ('x'):rep(1e6), 1, -1) pcall(string.char, table.unpack({}, 1, 900))
  return { action = "wait" }
end
