"""Quantiles in constant memory: counts in bins of equal width, the newest counting most. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

_RESCALE = 1e12


class Sketch:
    """Quantiles of the values seen lately: a value is right to the width of a bin.

    `memory` is the number of values after which an old one counts half as much as a new one.
    """

    __slots__ = ("_bins", "_growth", "_low", "_next", "_sum", "_width", "seen")

    def __init__(self, low: float, high: float, width: float, memory: int) -> None:
        self._low = low
        self._width = width
        self._bins = array("d", bytes(8 * math.ceil((high - low) / width)))
        # Instead of shrinking all bins at every value, each value weighs a little more than the one before it.
        self._growth = 2.0 ** (1.0 / memory)
        self._next = 1.0
        self._sum = 0.0
        self.seen = 0

    def add(self, value: float, times: int = 1) -> None:
        """Take in a value, so many times over; one beyond the range counts as the end of the range."""
        bins, weight, growth = self._bins, self._next, self._growth
        place = int((value - self._low) / self._width)
        if not 0 <= place < len(bins):
            place = 0 if place < 0 else len(bins) - 1
        if times > 1:  # weights that grow: the sum of a geometric series
            most = growth**times
            weight, growth = weight * (most - 1.0) / (growth - 1.0), most
        bins[place] += weight
        self._sum += weight
        self._next *= growth
        self.seen += times
        if self._next > _RESCALE:
            self._rescale()

    def _rescale(self) -> None:
        for place, weight in enumerate(self._bins):
            self._bins[place] = weight / self._next
        self._sum /= self._next
        self._next = 1.0

    def quantile(self, share: float) -> float:
        """The value below which that share of the values lies; only asked where something was seen."""
        wanted = min(max(share, 0.0), 1.0) * self._sum
        passed = 0.0
        for place, weight in enumerate(self._bins):
            if weight and passed + weight >= wanted:
                return self._low + self._width * (place + (wanted - passed) / weight)
            passed += weight
        return self._low + self._width * len(self._bins)

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Several quantiles, for rising shares, in one pass over the bins."""
        found: list[float] = []
        passed = 0.0
        for place, weight in enumerate(self._bins):
            while weight and len(found) < len(shares) and passed + weight >= shares[len(found)] * self._sum:
                inside = (shares[len(found)] * self._sum - passed) / weight
                found.append(self._low + self._width * (place + inside))
            passed += weight
        end = self._low + self._width * len(self._bins)
        return found + [end] * (len(shares) - len(found))

    def share_below(self, value: float) -> float:
        """The share of the values that lie below a value."""
        if not self._sum:
            return 0.0
        exact = min(max((value - self._low) / self._width, 0.0), float(len(self._bins)))
        place = int(exact)
        below = math.fsum(self._bins[:place])
        if place < len(self._bins):
            below += self._bins[place] * (exact - place)
        return min(1.0, below / self._sum)


class Durations:
    """Quantiles of durations in milliseconds, right to a tenth, from one millisecond to a century."""

    __slots__ = ("_logs",)

    def __init__(self, memory: int = 200) -> None:
        self._logs = Sketch(0.0, 28.8, 0.1, memory)

    @property
    def seen(self) -> int:
        """How many durations were taken in."""
        return self._logs.seen

    def add(self, milliseconds: float, times: int = 1) -> None:
        """Take in a duration, so many times over."""
        self._logs.add(math.log(milliseconds) if milliseconds > 1.0 else 0.0, times)

    def quantile(self, share: float) -> float:
        """The duration below which that share lies."""
        return math.exp(self._logs.quantile(share))

    def quantiles(self, shares: Sequence[float]) -> tuple[float, ...]:
        """The durations below which those shares lie."""
        return tuple(math.exp(value) for value in self._logs.quantiles(shares))

    def left(self, passed: float, share: float = 0.5) -> float:
        """What is left of something that has lasted so long, given that it has not ended."""
        if passed < 1.0:
            return self.quantile(share)
        before = self._logs.share_below(math.log(passed))
        if before >= 0.999:  # longer than anything seen: what has lasted long tends to last
            return passed
        return max(1.0, self.quantile(before + (1.0 - before) * share) - passed)
