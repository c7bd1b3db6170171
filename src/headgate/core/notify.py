"""Named events to whoever listens. A listener that raises is reported and spoils nothing for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headgate.core.errors import InvalidInput

Listener = Callable[..., Any]


class Log(Protocol):
    """Where failures are written down: a logger, handed in."""

    def error(self, message: str, /, *details: object, exc_info: Exception) -> None:
        """Write down what failed."""
        ...


class Notifier:
    """Calls listeners by the name of the event, in the order in which they came."""

    def __init__(self, events: tuple[str, ...], log: Log) -> None:
        self._listeners: dict[str, list[Listener]] = {event: [] for event in events}
        self._log = log

    def on(self, event: str, listener: Listener) -> None:
        """Listen to an event."""
        self._of(event).append(listener)

    def off(self, event: str, listener: Listener) -> None:
        """Listen no more; who does not listen is left alone."""
        listeners = self._of(event)
        if listener in listeners:
            listeners.remove(listener)

    def emit(self, event: str, *details: Any) -> None:
        """Tell everybody."""
        for listener in tuple(self._of(event)):
            try:
                listener(*details)
            except Exception as error:  # noqa: BLE001 - whatever a listener does, the work goes on
                self._log.error("a listener to %s failed", event, exc_info=error)

    def _of(self, event: str) -> list[Listener]:
        if event not in self._listeners:
            raise InvalidInput(f"there is no event {event!r}; there are {', '.join(self._listeners)}", field="event")
        return self._listeners[event]
