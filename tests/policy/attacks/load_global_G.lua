-- replace _G while loading
_G = { os = 1 }
function schedule(context) return { action = 'wait', reason = os and 'ESCAPED' } end
