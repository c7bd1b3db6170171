"""Policies: the rules and scripts that answer what happens next."""
