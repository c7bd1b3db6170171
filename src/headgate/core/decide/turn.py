"""One command being carried out: the state, the time, and the events so far."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headgate.core.apply import APPLY
from headgate.core.apply.jobs import plain_jobs_submitted
from headgate.core.events import Event, JobSubmitted
from headgate.core.state import State


class Turn(msgspec.Struct, gc=False):
    """What a handler works with."""

    state: State
    now: int
    chance: Callable[[], float]
    events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Apply an event and keep it."""
        APPLY[type(event)](self.state, event)
        self.events.append(event)

    def emit_plain(self, events: list[JobSubmitted]) -> None:
        """The same for the submissions of jobs that wait for nothing but room."""
        if len(events) == 1:
            self.emit(events[0])
        elif events:
            plain_jobs_submitted(self.state, events)
            self.events += events
