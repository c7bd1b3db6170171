"""Headgate: a programmable, resource-aware job scheduler."""
