"""Figures over many values: distributions, Jain's index, a histogram that needs no memory, the bootstrap."""

from __future__ import annotations

import math
import random
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


class Interval(msgspec.Struct, frozen=True):
    """A mean and where it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0


def block_bootstrap(differences: Sequence[float], seed: int = 0, rounds: int = 2_000) -> Interval:
    """The mean of paired differences with a 95 % interval.

    Neighbours in a queue share their luck, so whole blocks of neighbours are drawn, about as many as the root of the
    number of jobs: single jobs would make the interval too narrow.
    """
    n = len(differences)
    if not n:
        return Interval(0.0, 0.0, 0.0)
    size = max(1, math.isqrt(n))
    blocks = [differences[start : start + size] for start in range(0, n, size)]
    sums = [(math.fsum(block), len(block)) for block in blocks]
    chance = random.Random(f"bootstrap/{seed}")
    means = []
    for _ in range(rounds):
        drawn = chance.choices(sums, k=len(sums))
        means.append(math.fsum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return Interval(math.fsum(differences) / n, means[int(0.025 * rounds)], means[int(0.975 * rounds)])
