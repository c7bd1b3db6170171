-- a source that is not UTF-8
local x = 'ÿþ€'
function schedule() return { action = 'wait', reason = x } end
