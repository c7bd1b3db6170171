"""The words of the facade, and how they map onto those of the engine."""

from __future__ import annotations

from enum import Enum

from headgate.schedulers.errors import TaskSchedulingError


class TaskStatus(Enum):
    """Where a task is: a view of the states of jobs."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskPriority(Enum):
    """How urgent a task is; higher goes first."""

    LOWEST = 1
    LOW = 2
    NORMAL = 3
    HIGH = 4
    HIGHEST = 5


_STATUS = {
    "blocked": TaskStatus.PENDING,
    "queued": TaskStatus.PENDING,
    "leased": TaskStatus.PENDING,
    "running": TaskStatus.RUNNING,
    "completed": TaskStatus.COMPLETED,
    "failed": TaskStatus.FAILED,
    "expired": TaskStatus.FAILED,
    "cancelled": TaskStatus.CANCELLED,
}


def status_of(state: str) -> TaskStatus:
    """The status that a job's state amounts to."""
    return _STATUS[state]


def priority_of(given: object, default: TaskPriority = TaskPriority.NORMAL) -> TaskPriority:
    """A priority from the enumeration, its number or its name."""
    if given is None:
        return default
    if isinstance(given, TaskPriority):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 5:
        return TaskPriority(given)
    if isinstance(given, str) and given.upper() in TaskPriority.__members__:
        return TaskPriority[given.upper()]
    names = ", ".join(member.name.lower() for member in TaskPriority)
    raise TaskSchedulingError(f"priority: must be one of {names} or 1 to 5, not {given!r}", field="priority")
