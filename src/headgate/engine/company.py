"""Waiting for company: on a slow disk, callers that speak one after the other should share a commit.

Two workers that each say a word and wait for its answer fall into step: the word of one comes just after the commit of
the other has begun, and each waits for two commits in place of one. So whoever leads first waits a moment for those who
spoke in the last two rounds, as long as that moment is short beside the commit it saves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable

from headgate.ports import Clock

SLOW = 2.0
"""Milliseconds that the disk takes for a commit, on average, from which on it pays to wait."""
_SHARE = 4
"""What part of a commit is waited for company at most."""
_WEIGHT = 0.2


class Company:
    """Who spoke lately, and how long their commits took."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._commit_ms = 0.0
        self._last: Collection[Hashable] = ()
        self._before: Collection[Hashable] = ()
        self._served_at = 0
        self._came = threading.Event()
        self._waiting = False

    def come(self) -> None:
        """Somebody has something to say; it is in the queue."""
        if self._waiting:
            self._came.set()

    def patience(self) -> float:
        """Milliseconds that it pays to wait for company."""
        if self._commit_ms < SLOW:
            return 0.0
        if self._clock.now() - self._served_at > 2 * self._commit_ms:  # nobody speaks just now: nobody is about to
            return 0.0
        return max(1.0, self._commit_ms / _SHARE)

    def missing(self, here: set[Hashable]) -> bool:
        """Whether somebody who is likely to speak in a moment is not here."""
        return not here.issuperset(self._last) or not here.issuperset(self._before)

    def wait(self, here: Callable[[], set[Hashable]]) -> None:
        """Wait for those who are likely to speak in a moment, unless they are here."""
        patience = self.patience()
        if not patience:
            return
        self._waiting = True
        until = self._clock.now() + patience
        while self.missing(here()) and (left := until - self._clock.now()) > 0:
            self._came.wait(left / 1000)
            self._came.clear()
        self._waiting = False

    def served(self, callers: Collection[Hashable], began: int) -> None:
        """A round is over; the disk began with its commit then."""
        self._served_at = self._clock.now()
        self._commit_ms += _WEIGHT * (self._served_at - began - self._commit_ms)
        self._before, self._last = self._last, callers
