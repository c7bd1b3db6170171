-- schedule is a table
schedule = {}
