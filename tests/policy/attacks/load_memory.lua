-- a memory bomb in the main chunk
local t = {}
for i = 1, 1e9 do t[i] = { i } end
function schedule() end
