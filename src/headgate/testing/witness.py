"""A witness follows a history and checks what no single state can show.

`verify` looks at one state. That tokens only grow, that an end is an end, that no job is lost and that each grant kept
within the usable units can only be told by someone who was there.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.errors import InvariantBroken
from headgate.core.events import (
    AttemptFailed,
    DeadlineMissed,
    DependencyFailed,
    Event,
    JobCancelled,
    JobCompleted,
    JobsForgotten,
    JobSubmitted,
    LeaseExpired,
    LeaseGranted,
)
from headgate.core.state import State
from headgate.core.states import TERMINAL, JobState


def ending(event: Event) -> tuple[str, JobState] | None:
    """Which job the event brought to an end, and to which."""
    match event:
        case JobCompleted():
            return event.job_id, JobState.COMPLETED
        case AttemptFailed(retry_at=None):
            return event.job_id, JobState.FAILED
        case LeaseExpired(retry_at=None):
            return event.job_id, JobState.EXPIRED
        case DependencyFailed():
            return event.id, JobState.FAILED
        case DeadlineMissed():
            return event.id, JobState.EXPIRED
        case JobCancelled():
            return event.id, JobState.CANCELLED
    return None


class Witness:
    """Remembers what was, and compares."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ended: dict[str, JobState] = {}
        self.submitted: set[str] = set()
        self.forgotten: set[str] = set()

    def saw(self, state: State, events: Iterable[Event], now: int) -> None:
        """Check the events of one command and the state that they led to."""
        granted = False
        for event in events:
            match event:
                case LeaseGranted():
                    granted = True
                    self._token(event)
                case JobSubmitted():
                    self.submitted.add(event.id)
                case JobsForgotten():
                    self._forget(event.ids)
                case _:
                    self._end(event)
        if granted:
            self._within_capacity(state, now)
        self._ends_are_ends(state)
        self._nothing_lost(state)

    def _token(self, event: LeaseGranted) -> None:
        if self.tokens and event.token <= self.tokens[-1]:
            raise InvariantBroken(f"token {event.token} was given out after {self.tokens[-1]}")
        self.tokens.append(event.token)

    def _within_capacity(self, state: State, now: int) -> None:
        usable = state.usable_units(now)
        if state.leased_units > usable:
            raise InvariantBroken(f"{state.leased_units} units are leased where {usable} are usable")
        if state.settings.fixed_busy is None and (state.load.busy >= 10 or state.load.stale(now, state.settings)):
            raise InvariantBroken("a lease was granted while the gate was shut")

    def _end(self, event: Event) -> None:
        ended = ending(event)
        if ended is None:
            return
        job_id, end = ended
        if job_id in self.ended:
            raise InvariantBroken(f"job {job_id} was {self.ended[job_id]} and ended again as {end}")
        self.ended[job_id] = end

    def _forget(self, ids: Iterable[str]) -> None:
        for job_id in ids:
            if job_id not in self.ended:
                raise InvariantBroken(f"job {job_id} was forgotten before it ended")
            self.forgotten.add(job_id)

    def _ends_are_ends(self, state: State) -> None:
        for job_id, end in self.ended.items():
            job = state.jobs.get(job_id)
            if job is not None and job.state is not end:
                raise InvariantBroken(f"job {job_id} was {end} and is {job.state}")
        for job in state.jobs.values():
            if job.state in TERMINAL and job.id not in self.ended:
                raise InvariantBroken(f"job {job.id} is {job.state} and no event says so")

    def _nothing_lost(self, state: State) -> None:
        lost = self.submitted - self.forgotten - state.jobs.keys()
        if lost:
            raise InvariantBroken(f"{len(lost)} jobs are lost, {min(lost)} among them")
