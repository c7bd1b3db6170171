-- Opens a runtime: the trusted parts get the language's own library as their private globals; when they are loaded, the real
-- globals and the loader's tables are emptied, so that even code that escaped its environment finds nothing there.
local hg, own, load, setfenv, collect, G = {}, {}, loadstring, setfenv, collectgarbage, _G
hg.meta_of, hg.runtime = debug.getmetatable, jit.version
for name, value in pairs(_G) do own[name] = value end
own._G, own.python = nil, nil

local function part(source, name) return setfenv(assert(load(source, "=" .. name)), own)(hg) end

local NEEDED_ONLY_WHILE_LOADING = { "os", "io", "package", "require", "module", "load", "loadfile", "dofile", "jit", "coroutine" }
local function close()
  hg.sandbox.verify()
  local loaded, preload = package.loaded, package.preload
  for name in pairs(loaded) do if name ~= "_G" then loaded[name] = nil end end
  for name in pairs(preload) do preload[name] = nil end
  for _, name in ipairs(NEEDED_ONLY_WHILE_LOADING) do own[name] = nil end
  for name in next, G do G[name] = nil end
end

return part, close,
  function() collect("collect") end,
  function(...) return hg.feed(...) end,
  function(...) return hg.policies.load(...) end,
  function(...) return hg.policies.check_syntax(...) end,
  hg.runtime
