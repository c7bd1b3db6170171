"""The worker: what runs jobs. It talks to the engine through a link and keeps no rule of scheduling.

Names are imported when they are asked for: the process that starts the others must stay small.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.worker.context import GiveUp, JobContext, JobStopped, current_job
    from headgate.worker.pull import PullScheduler
    from headgate.worker.runtime import Runtime
    from headgate.worker.single_slot import SingleSlot, SlotState
    from headgate.worker.work_orders import PullConfig, WorkOrder

_HOMES = {
    "GiveUp": "context",
    "JobContext": "context",
    "JobStopped": "context",
    "PullConfig": "work_orders",
    "PullScheduler": "pull",
    "Runtime": "runtime",
    "SingleSlot": "single_slot",
    "SlotState": "single_slot",
    "WorkOrder": "work_orders",
    "current_job": "context",
}

__all__ = [
    "GiveUp",
    "JobContext",
    "JobStopped",
    "PullConfig",
    "PullScheduler",
    "Runtime",
    "SingleSlot",
    "SlotState",
    "WorkOrder",
    "current_job",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
