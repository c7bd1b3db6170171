-- a policy without schedule
local function schedule() return { action = 'wait' } end
