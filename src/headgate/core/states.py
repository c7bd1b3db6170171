"""The one transition table of a job.

Rules
- `TRANSITIONS` is the whole truth: a trigger that is not listed for a state is illegal and changes nothing.
- `completed`, `failed`, `expired` and `cancelled` are terminal: no trigger leads out of them.
- A lease is live exactly in `leased` and `running`.
- `retry`, `release` and `preempt` lead back to `queued`; `retry` alone uses up an attempt.
The diagram in the documentation is drawn from this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.core.errors import IllegalTransition


class JobState(StrEnum):
    """Where a job is in its life."""

    __hash__ = str.__hash__  # Enum's own hash runs in Python; the table is looked up for every event

    BLOCKED = "blocked"
    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Trigger(StrEnum):
    """What moves a job from one state to the next."""

    __hash__ = str.__hash__

    UNBLOCK = "unblock"
    DEPENDENCY_FAILED = "dependency_failed"
    MISS_DEADLINE = "miss_deadline"
    GRANT = "grant"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    EXPIRE = "expire"
    RETRY = "retry"
    RELEASE = "release"
    PREEMPT = "preempt"
    CANCEL = "cancel"


_S, _T = JobState, Trigger
TRANSITIONS: Final[dict[tuple[JobState, Trigger], JobState]] = {
    (_S.BLOCKED, _T.UNBLOCK): _S.QUEUED,
    (_S.BLOCKED, _T.DEPENDENCY_FAILED): _S.FAILED,
    (_S.BLOCKED, _T.MISS_DEADLINE): _S.EXPIRED,
    (_S.BLOCKED, _T.CANCEL): _S.CANCELLED,
    (_S.QUEUED, _T.GRANT): _S.LEASED,
    (_S.QUEUED, _T.MISS_DEADLINE): _S.EXPIRED,
    (_S.QUEUED, _T.CANCEL): _S.CANCELLED,
    (_S.LEASED, _T.START): _S.RUNNING,
    (_S.LEASED, _T.EXPIRE): _S.EXPIRED,
    (_S.LEASED, _T.RETRY): _S.QUEUED,
    (_S.LEASED, _T.RELEASE): _S.QUEUED,
    (_S.LEASED, _T.PREEMPT): _S.QUEUED,
    (_S.LEASED, _T.CANCEL): _S.CANCELLED,
    (_S.RUNNING, _T.COMPLETE): _S.COMPLETED,
    (_S.RUNNING, _T.FAIL): _S.FAILED,
    (_S.RUNNING, _T.EXPIRE): _S.EXPIRED,
    (_S.RUNNING, _T.RETRY): _S.QUEUED,
    (_S.RUNNING, _T.RELEASE): _S.QUEUED,
    (_S.RUNNING, _T.PREEMPT): _S.QUEUED,
    (_S.RUNNING, _T.CANCEL): _S.CANCELLED,
}

# In Python 3.11 to look a member up on its class costs as much as a call: those that every job meets have names here.
BLOCKED: Final = JobState.BLOCKED
QUEUED: Final = JobState.QUEUED
RUNNING: Final = JobState.RUNNING
GRANT: Final = Trigger.GRANT
START: Final = Trigger.START
COMPLETE: Final = Trigger.COMPLETE

TERMINAL: Final = frozenset({_S.COMPLETED, _S.FAILED, _S.EXPIRED, _S.CANCELLED})
WAITING: Final = frozenset({_S.BLOCKED, _S.QUEUED})
LEASED: Final = frozenset({_S.LEASED, _S.RUNNING})


def step(state: JobState, trigger: Trigger) -> JobState:
    """Return the next state, or raise `IllegalTransition`."""
    after = TRANSITIONS.get((state, trigger))
    if after is None:
        said = f"cannot {trigger.replace('_', ' ')} a job that is {state}"
        raise IllegalTransition(said, state=str(state), trigger=str(trigger))
    return after


def diagram() -> str:
    """Draw the table as a Mermaid state diagram."""
    edges: dict[tuple[JobState, JobState], list[str]] = {}
    for (before, trigger), after in TRANSITIONS.items():
        edges.setdefault((before, after), []).append(trigger.replace("_", " "))
    lines = ["stateDiagram-v2", "    [*] --> blocked", "    [*] --> queued"]
    lines += [f"    {before} --> {after}: {', '.join(names)}" for (before, after), names in edges.items()]
    lines += [f"    {state} --> [*]" for state in JobState if state in TERMINAL]
    return "\n".join(lines)
