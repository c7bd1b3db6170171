"""Is a difference real? The bootstrap over blocks of neighbours, for simulations and experiments alike."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec

FEWEST = 5
"""Blocks that an interval needs."""
_NORMAL = 1.959964
BOUND = 10.0
"""Seconds: runs below this count as this long in a bounded slowdown."""


class Interval(msgspec.Struct, frozen=True):
    """A mean and where it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0


def bounded_slowdown(turnaround: float, run: float) -> float:
    """Turnaround against the run time, in seconds, and never below 1."""
    return max(1.0, turnaround / max(run, BOUND))


def interval_of_blocks(differences: Sequence[float], seed: int = 0) -> Interval | None:
    """The mean of the differences of whole blocks with a 95 % interval; none where there are too few of them.

    The bootstrap is too sure of itself where it has little to draw from, so the interval is stretched as Student's
    distribution is wider than the normal one.
    """
    n = len(differences)
    if n < FEWEST:
        return None
    found = block_bootstrap(differences, seed, size=1)
    wider = _student(n - 1) / _NORMAL * math.sqrt(n / (n - 1))
    return Interval(
        found.mean, found.mean - (found.mean - found.low) * wider, found.mean + (found.high - found.mean) * wider
    )


def _student(df: int) -> float:
    """The 97.5 % point of Student's distribution (Abramowitz and Stegun 26.7.5), right to 1 % from 4 degrees on."""
    z = _NORMAL
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / df + second / df**2


def block_bootstrap(
    differences: Sequence[float], seed: int = 0, rounds: int = 2_000, size: int | None = None
) -> Interval:
    """The mean of paired differences with a 95 % interval.

    Neighbours in a queue share their luck, so whole blocks of neighbours are drawn, about as many as the root of the
    number of jobs: single jobs would make the interval too narrow.
    """
    n = len(differences)
    if not n:
        return Interval(0.0, 0.0, 0.0)
    size = size or max(1, math.isqrt(n))
    blocks = [differences[start : start + size] for start in range(0, n, size)]
    sums = [(math.fsum(block), len(block)) for block in blocks]
    chance = random.Random(f"bootstrap/{seed}")
    means = []
    for _ in range(rounds):
        drawn = chance.choices(sums, k=len(sums))
        means.append(math.fsum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return Interval(math.fsum(differences) / n, means[int(0.025 * rounds)], means[int(0.975 * rounds)])
