-- the main chunk raises a table
error({ 1, 2, 3 })
