"""Waiting for company: callers that speak one after the other should share a commit.

Two workers that each say a word and wait for its answer fall into step: the word of one comes just after the commit of
the other has begun, and each of them pays for a commit of its own. So those who spoke in the last two rounds are waited
for, as long as that is short beside the commit it saves, and as long as they come.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

_SHARE = 0.5
"""What part of a round is waited at most."""
_WEIGHT = 0.2
_IDLE = 4
"""Rounds after whose length in silence nobody is about to speak."""
_RAREST = 6


class Company:
    """Who spoke lately, how long their rounds took, and whether they came when they were waited for. In seconds."""

    def __init__(self) -> None:
        self._took = 0.0
        self._last: Collection[Hashable] = ()
        self._before: Collection[Hashable] = ()
        self._served_at = 0.0
        self._in_vain = 0
        self._skip = 0

    def patience(self, here: Collection[Hashable], now: float) -> float:
        """Seconds that it pays to wait for those who are not here yet."""
        if not self.missing(here) or now - self._served_at > _IDLE * self._took:
            return 0.0
        if self._skip:
            self._skip -= 1
            return 0.0
        return self._took * _SHARE

    def missing(self, here: Collection[Hashable]) -> bool:
        """Whether somebody who is likely to speak in a moment is not here."""
        return any(caller not in here for caller in (*self._last, *self._before))

    def waited(self, *, came: bool) -> None:
        """They were waited for. Who does not come is waited for ever more rarely."""
        self._in_vain = 0 if came else min(_RAREST, self._in_vain + 1)
        self._skip = 0 if came else 2**self._in_vain

    def served(self, callers: Collection[Hashable], began: float, now: float) -> None:
        """A round is over."""
        self._served_at = now
        self._took += _WEIGHT * (now - began - self._took)
        self._before, self._last = self._last, callers
