"""One module for each command: `configure(parser)` says what it takes, `EXAMPLES` how it is used."""
