-- search everything reachable for a forbidden library
local function attempt(context)
  local seen = {}
  local function walk(v, depth)
    if depth > 6 or (type(v) ~= "table") or seen[v] then return nil end
    seen[v] = true
    for _, name in ipairs({ "execute", "popen", "getregistry", "cdef", "loadlib", "sethook", "__class__", "builtins" }) do
      local ok, r = pcall(function() return v[name] end)
      if ok and r ~= nil then return name end
    end
    local ok, found = pcall(function()
      for _, child in pairs(v) do
        local r = walk(child, depth + 1)
        if r then return r end
      end
    end)
    return ok and found
  end
  return walk(_G, 0) or walk(context, 0)
end
function schedule(context)
  local ok, got = pcall(attempt, context)
  if ok and got then return { action = "wait", reason = "ESCAPED" } end
  return { action = "wait" }
end
