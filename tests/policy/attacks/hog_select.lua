-- select with odd numbers
function schedule(context)
  pcall(select, -1) pcall(select, 0 / 0, 1) pcall(select, 1e300, 1) pcall(select, -2 ^ 53, 1)
  return { action = "wait" }
end
