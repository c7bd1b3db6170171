"""What goes wrong again and again is said once, and again after a while."""

from __future__ import annotations

import logging

from headgate.ports import Clock

AGAIN = 10_000
"""Milliseconds before the same is said again."""


class Complaints:
    """Warnings of one worker, by what it could not do."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._said: dict[str, tuple[str, int]] = {}

    def say(self, what: str, why: Exception) -> None:
        """Warn, unless just that was said a moment ago."""
        now, text = self._clock.now(), str(why)
        before, at = self._said.get(what, ("", -AGAIN))
        if text != before or now - at >= AGAIN:
            self._said[what] = text, now
            self._log.warning("%s: %s", what, text)
