"""Individual tasks on a number of workers."""

from __future__ import annotations

from headgate.schedulers.base import EngineScheduler


class TaskScheduler(EngineScheduler):
    """Configuration: `max_workers` (4), `timeout` in seconds (none), `retry_attempts` (0)."""
