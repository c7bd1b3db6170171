"""Orderings in Python, behind the same interface as any policy: for speed, and as a check on the Lua ones."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from headgate.core import events as e
from headgate.core.actions import Action, Dispatch
from headgate.core.check import over_quota
from headgate.core.commands import Command, Scheduled
from headgate.core.ordering import Note, first_fit
from headgate.core.state import Job, State

_LINES_UP: dict[type[e.Event], str] = {
    **dict.fromkeys((e.JobSubmitted, e.JobUnblocked, e.JobDue, e.JobPatched), "id"),
    **dict.fromkeys((e.AttemptFailed, e.LeaseExpired, e.LeaseReleased), "job_id"),
}
"""Events after which a job may be ready, and the field that names it."""


class StrictFcfs:
    """First come, first served, and nothing overtakes: the head of the queue starts while it fits."""

    def __init__(self) -> None:
        self._line: list[tuple[int, str]] = []

    def observe(self, events: Sequence[e.Event], state: State) -> None:
        """Let jobs line up as they become ready."""
        for event in events:
            field = _LINES_UP.get(type(event))
            job = state.jobs.get(getattr(event, field)) if field is not None else None
            if job is not None and job.ready:
                heappush(self._line, (job.seq, job.id))

    def propose(self, state: State, now: int) -> list[Action]:
        """The head of the queue, if it fits."""
        job = self._first(state)
        if job is None:
            return []
        shape = job.kind.bucket.shape
        if shape.units > state.usable_units(now) - state.leased_units:
            return []
        if over_quota(state.tenants[job.kind.of.tenant], shape) is not None:
            return []
        if shape.external:
            return [Dispatch(job.id)]
        worker, _ = first_fit(state, shape, now)
        return [] if worker is None else [Dispatch(job.id, worker.id)]

    def _first(self, state: State) -> Job | None:
        line = self._line
        while line:
            job = state.jobs.get(line[0][1])
            if job is not None and job.ready:
                return job
            heappop(line)
        return None

    def disposed(self, _scheduled: Scheduled, _now: int) -> list[Note | Command[Any]]:
        """Nothing to keep."""
        return []
