"""Time, identity and chance that repeat: what the edge takes from the machine, a test takes from here."""

from __future__ import annotations

import random

START = 1_000_000
"""Where a manual clock begins, so that the past exists and nobody mistakes zero for "not set"."""


class ManualClock:
    """A clock that moves only when told to. It can also jump back, as a bad clock does."""

    def __init__(self, at: int = START) -> None:
        self._now = at

    def now(self) -> int:
        """Milliseconds."""
        return self._now

    def advance(self, milliseconds: int) -> int:
        """Move on, or back where the number is negative; return the new time."""
        self._now += milliseconds
        return self._now

    def jump_to(self, at: int) -> int:
        """Stand at another time at once, earlier or later."""
        self._now = at
        return self._now


class SeededChance:
    """Chance that is the same for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._source = random.Random(seed)

    def uniform(self) -> float:
        """Draw from [0, 1)."""
        return self._source.random()

    def bits(self, count: int) -> int:
        """Draw an integer of that many bits."""
        return self._source.getrandbits(count)


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_STEP_BITS = 40


class SeededIds:
    """Ids of the shape that the system makes: 26 characters, each sorts after the one before."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = SeededChance(seed)
        self._last = self._chance.bits(64)

    def new(self) -> str:
        """The next id."""
        self._last += 1 + self._chance.bits(_STEP_BITS)
        shifts = range(5 * (_LENGTH - 1), -1, -5)
        return "".join(_ALPHABET[(self._last >> shift) & 31] for shift in shifts)

    def many(self, count: int) -> list[str]:
        """The next ids."""
        return [self.new() for _ in range(count)]
