"""Stores: homes for the state behind one protocol (`headgate.ports.Store`). They keep rows and know no rules."""
