"""The engine: the one writer around the core, its group commits, timers and recovery. It imports no edge."""
