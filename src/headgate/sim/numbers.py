"""Figures over many values: distributions, Jain's index, a histogram that needs no memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

_SHARES = (0.5, 0.9, 0.95, 0.99)


class Distribution(msgspec.Struct, frozen=True):
    """Mean, percentiles and the largest of many values."""

    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    largest: float = 0.0


def distribution(values: Sequence[float]) -> Distribution:
    """Exact, by the nearest rank."""
    if not values:
        return Distribution()
    ordered = sorted(values)
    ranks = [ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] for share in _SHARES]
    p50, p90, p95, p99 = ranks
    return Distribution(math.fsum(ordered) / len(ordered), p50, p90, p95, p99, ordered[-1])


class LogHistogram:
    """Values counted in bins that grow by a 32nd of a power of two: percentiles right to 2.2 %, in constant memory."""

    _FINE = 32

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self._sum = 0.0
        self._largest = 0.0
        self.count = 0

    def add(self, value: float) -> None:
        """Count a value; nothing is below zero."""
        place = math.floor(math.log2(value) * self._FINE) if value > 1e-9 else -(10**6)
        self._bins[place] = self._bins.get(place, 0) + 1
        self._sum += value
        self._largest = max(self._largest, value)
        self.count += 1

    def distribution(self) -> Distribution:
        """The figures."""
        if not self.count:
            return Distribution()
        ranks, passed, wanted = [], 0, [math.ceil(share * self.count) for share in _SHARES]
        for place in sorted(self._bins):
            passed += self._bins[place]
            while wanted and passed >= wanted[0]:
                wanted.pop(0)
                ranks.append(0.0 if place == -(10**6) else min(self._largest, 2 ** ((place + 0.5) / self._FINE)))
        p50, p90, p95, p99 = ranks
        return Distribution(self._sum / self.count, p50, p90, p95, p99, self._largest)


def jain(values: Iterable[float]) -> float:
    """Jain's index: 1 where all got the same, 1/n where one got everything."""
    given = list(values)
    squares = math.fsum(value * value for value in given)
    return math.fsum(given) ** 2 / (len(given) * squares) if squares else 1.0
