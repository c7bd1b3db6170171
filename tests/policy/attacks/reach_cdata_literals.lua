-- number literals that make foreign-function values: reach the library behind them
local function attempt(context)
  local a, b = 1LL, 2ULL
  for _, v in ipairs({ a, b, a + b, -a, 3i }) do
    for _, name in ipairs({ "C", "cdef", "cast", "__index", "re" }) do
      local ok, got = pcall(function() return v[name] end)
      if ok and type(got) == "function" then return true end
    end
  end
  return tostring(a):find("0x")
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
