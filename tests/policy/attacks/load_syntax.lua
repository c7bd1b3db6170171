-- not Lua at all
function schedule( return end end
