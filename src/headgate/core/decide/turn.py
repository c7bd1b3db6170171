"""One command being carried out: the state, the time, and the events so far."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.apply import APPLY
from headgate.core.events import Event
from headgate.core.state import State


class Turn:
    """What a handler works with."""

    __slots__ = ("chance", "events", "now", "state")

    def __init__(self, state: State, now: int, chance: Callable[[], float]) -> None:
        self.state = state
        self.now = now
        self.chance = chance
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Apply an event and keep it."""
        APPLY[type(event)](self.state, event)
        self.events.append(event)
