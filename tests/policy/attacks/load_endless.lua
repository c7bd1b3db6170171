-- an endless loop in the main chunk
while true do end
function schedule() end
