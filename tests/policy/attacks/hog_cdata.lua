-- helpers and libraries called with foreign-function numbers
function schedule(context)
  pcall(string.rep, "x", 9223372036854775807LL)
  pcall(table.unpack, {}, 1LL, 9223372036854775807LL)
  pcall(context.helpers.find_gpus_with_vram, 1LL)
  pcall(function() return context.queue[1LL] end)
  pcall(math.random, 1LL)
  return { action = "wait" }
end
