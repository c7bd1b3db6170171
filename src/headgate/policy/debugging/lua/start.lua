-- Loaded last: puts the runtime into one of the ways of looking at a policy. What it returns is called before the lockdown.
local hg = ...
local jit = jit
return function(way, socket, without_waiting)
  hg.link.connect(socket, without_waiting)
  if way ~= "profiling" then jit.off() end -- compiled code has no hooks
  hg[way].enter()
end
