"""A deadline on a connection: begun once, ended at any time, and what happens when nobody ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """So many seconds for something."""

    __slots__ = ("_loop", "_missed", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, missed: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._missed = missed
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """From now on the time runs; it is not begun anew by this."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._over)

    def end(self) -> None:
        """It was done in time, or no longer matters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        self._missed()
