"""Forecasting beside the work: what happens teaches the predictor, and some of the jobs that wait are bet upon.

Everybody who asks gets an estimate. Those that are held against what happens are a sample, two a second at most, so
that a flood of submissions pays nothing for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from headgate.core import events as e
from headgate.core.explain import startable
from headgate.core.job import JobSpec
from headgate.core.predict import Predictor
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.engine.writer import Writer
from headgate.ports import EndedJob

EVERY = 1_000
"""Milliseconds between two rounds of statements."""
AT_ONCE = 2
_CANDIDATES = 64
_WARM = 2_000
_NEVER_STARTS = frozenset({e.JobCancelled, e.DependencyFailed, e.DeadlineMissed})
_spec = msgspec.msgpack.Decoder(JobSpec).decode


class Forecast:
    """Watches a writer."""

    def __init__(self, writer: Writer) -> None:
        self.predictor = Predictor()
        self._writer = writer
        self._candidates: deque[str] = deque(maxlen=_CANDIDATES)
        self._next_round = 0
        writer.observers.append(self.observe)

    def warm(self, ends: Iterable[EndedJob]) -> None:
        """Learn run times from jobs that ended before this engine was opened."""
        for job, end in ends:
            if end.state == JobState.COMPLETED and end.started_at is not None:
                self.predictor.ran(_spec(job.spec).kind.type, end.ended_at - end.started_at)

    def observe(self, events: list[e.Event], state: State) -> None:
        """State when some of those that wait will start, then learn from events.

        They come by the thousand, and jobs of one type that ran equally long are learned from at once.
        """
        predictor = self.predictor
        if state.predictor is not predictor:  # a state that was just rebuilt
            state.predictor = predictor
            self.warm(self._writer.store.recent_ends(_WARM))
        if self._candidates and state.now >= self._next_round:
            self._next_round = state.now + EVERY
            self._bet(state)
        ran: dict[tuple[str, int], int] = {}
        for event in events:
            if type(event) is e.JobSubmitted:
                self._candidates.append(event.id)
            elif type(event) is e.LeaseGranted:
                predictor.started(event.job_id, event.at)
            elif type(event) is e.JobCompleted:
                job = state.jobs[event.job_id]
                settled = job.settled
                if settled is not None and settled.started_at is not None:
                    run = (job.kind.of.type, event.at - settled.started_at)
                    ran[run] = ran.get(run, 0) + 1
            elif type(event) in _NEVER_STARTS:
                predictor.forget(event.id)  # type: ignore[attr-defined]  # each of them names its job
        for (job_type, milliseconds), jobs in ran.items():
            predictor.ran(job_type, milliseconds, jobs)

    def _bet(self, state: State) -> None:
        """A job that cannot start on what is there would only teach that everything comes late."""
        for _ in range(min(AT_ONCE, len(self._candidates))):
            job = state.jobs.get(self._candidates.popleft())
            if job is not None and startable(state, job):
                self.predictor.state(state, job.id, state.now)
