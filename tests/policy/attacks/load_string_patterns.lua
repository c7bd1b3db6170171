-- a pathological pattern while loading
local r = string.find(('a'):rep(4000), ('a-'):rep(30) .. 'b')
function schedule() end
