"""A timer wheel: every key is due at one moment, and can be moved or dropped at no cost that grows with the rest."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

K = TypeVar("K")

_WIDTH = 256
"""Milliseconds a slot spans. Firing is exact: a slot whose time has begun is looked through for what is due."""


class Wheel(Generic[K]):
    """Keys and the moments at which they are due."""

    __slots__ = ("_at", "_order", "_slots")

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._slots: dict[int, dict[K, None]] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def set(self, key: K, at: int) -> None:
        """Make `key` due at `at`, wherever it was before."""
        before = self._at.get(key)
        if before is not None:
            self._slots[before // _WIDTH].pop(key, None)
        self._at[key] = at
        number = at // _WIDTH
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            heapq.heappush(self._order, number)
        slot[key] = None

    def drop(self, key: K) -> None:
        """Forget `key` if it is there."""
        at = self._at.pop(key, None)
        if at is not None:
            self._slots[at // _WIDTH].pop(key, None)

    def at(self, key: K) -> int | None:
        """When `key` is due."""
        return self._at.get(key)

    def due(self, now: int) -> list[K]:
        """Return the keys that are due, earliest first. They stay until set anew or dropped."""
        begun = []
        while self._order and self._order[0] <= now // _WIDTH:
            begun.append(heapq.heappop(self._order))
        found = [key for number in begun for key in self._slots[number] if self._at[key] <= now]
        for number in begun:
            if self._slots[number]:
                heapq.heappush(self._order, number)
            else:
                del self._slots[number]
        return sorted(found, key=self._at.__getitem__)

    def next(self) -> int | None:
        """The earliest moment at which anything is due."""
        self._tidy()
        if not self._order:
            return None
        return min(self._at[key] for key in self._slots[self._order[0]])

    def soonest(self) -> int | None:
        """A moment before which nothing is due: quick to tell, and not more than a slot too early."""
        self._tidy()
        return self._order[0] * _WIDTH if self._order else None

    def _tidy(self) -> None:
        while self._order and not self._slots[self._order[0]]:
            del self._slots[heapq.heappop(self._order)]
