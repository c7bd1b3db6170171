"""Waiting between attempts: longer each time, spread by chance so that many clients do not come back at once."""

from __future__ import annotations

from threading import Event
from typing import Final

from headgate.ports import Chance, StoreUnavailable

FIRST_SECONDS: Final = 0.002
"""A connection that was merely cut is there again at once; a server that is gone is asked less and less often."""
LONGEST_SECONDS: Final = 2.0


class Backoff:
    """One series of attempts. Its patience is the time spent waiting, so that no clock is needed."""

    def __init__(self, chance: Chance, closing: Event, patience_seconds: float) -> None:
        self._chance = chance
        self._closing = closing
        self._left = patience_seconds
        self._delay = FIRST_SECONDS
        self.fresh = True
        """No attempt has failed yet."""

    def pause(self) -> bool:
        """Wait before the next attempt; false when patience is at its end."""
        self.fresh = False
        if self._left <= 0:
            return False
        delay = self._delay * (0.5 + self._chance.uniform() / 2)
        self._delay = min(self._delay * 2, LONGEST_SECONDS)
        self._left -= delay
        if self._closing.wait(delay):
            raise StoreUnavailable("the store was closed")
        return True
