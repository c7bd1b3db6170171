"""Follows committed events and hands each to whoever in the server keeps something from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headgate.core.events import Event
from headgate.engine.aio import AsyncEngine
from headgate.engine.feed import Subscription

LIMIT = 1_000_000
"""Events are taken out as they come; the buffer only has to hold the largest commit."""


class Watcher(Protocol):
    """Keeps something from events."""

    handlers: dict[type[Event], Callable[[Any], None]]
    """By type of event; called after the commit, in order."""

    def settle(self, events: Sequence[Event]) -> None:
        """These events of a commit have been handed over, all of them."""
        ...

    def restart(self) -> None:
        """Look at the state anew: events before now were not seen."""
        ...


class Watching:
    """One subscription for the whole server."""

    def __init__(self, engine: AsyncEngine, watchers: Sequence[Watcher]) -> None:
        self._engine = engine
        self._watchers = watchers
        self._handlers: dict[type[Event], list[Callable[[Any], None]]] = {}
        for watcher in watchers:
            for kind, handler in watcher.handlers.items():
                self._handlers.setdefault(kind, []).append(handler)
        self._subscription: Subscription | None = None
        self._recoveries = 0

    def start(self) -> None:
        """Follow from now on."""
        self._subscription = self._engine.subscribe(LIMIT)
        self._subscription.on_event = self._on_event
        self._recoveries = self._engine.writer.recoveries
        for watcher in self._watchers:
            watcher.restart()

    def stop(self) -> None:
        """Follow no more."""
        if self._subscription is not None:
            self._subscription.close()

    def _on_event(self) -> None:
        subscription = self._subscription
        if subscription is None:
            return
        entries = subscription.take()
        if self._engine.writer.recoveries != self._recoveries:  # the state was rebuilt from the store meanwhile
            self._recoveries = self._engine.writer.recoveries
            for watcher in self._watchers:
                watcher.restart()
            return
        handlers, events = self._handlers, [event for _, event in entries]
        for event in events:
            for handler in handlers.get(type(event), ()):
                handler(event)
        for watcher in self._watchers:
            watcher.settle(events)
