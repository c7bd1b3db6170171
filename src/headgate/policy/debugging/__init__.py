"""Looking into a policy while it decides: a debug adapter for editors, traces, profiles.

Each runs a recorded, simulated or generated decision once more in a locked-down process of its own, where trusted Lua
sets hooks around the policy. Nothing here touches a process that decides for real.
"""
