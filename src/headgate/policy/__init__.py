"""Policies: the Lua runtime and its sandbox, the policy host process, the context mirror. No scheduling rule
of the core enters.
"""
