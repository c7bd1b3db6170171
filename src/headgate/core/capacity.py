"""The busy rating and the capacity it leaves: a gate, not a metric. It fails closed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeGuard

from headgate.core.quantities import LARGEST
from headgate.core.settings import Settings, Threshold

FULL = 10.0
"""The rating at which nothing new is granted."""


def rate_signal(value: object, threshold: Threshold) -> float:
    """Map a value from low..high onto 0..10; what cannot be believed counts as 10."""
    if not _believable(value, threshold):
        return FULL
    share = (value - threshold.low) / (threshold.high - threshold.low)
    return FULL * min(1.0, max(0.0, share))


def rate_sample(
    signals: Mapping[str, object], settings: Settings, why: Mapping[str, str] | None = None
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Rate each signal; return the ratings and why any of them is not believed, in the source's own words if given."""
    why = why or {}
    ratings: dict[str, float] = {}
    reasons: list[str] = []
    for name in sorted(signals):
        value, threshold = signals[name], settings.signals.get(name)
        if threshold is None:
            ratings[name] = FULL
            reasons.append(f"{name}: no threshold is set for this signal")
            continue
        ratings[name] = rate_signal(value, threshold)
        if not _believable(value, threshold):
            reasons.append(f"{name}: {why.get(name) or f'{value!r} is not a believable value'}")
    if not signals:
        reasons.append("the sample is empty")
    return ratings, tuple(reasons)


def _believable(value: object, threshold: Threshold) -> TypeGuard[float]:
    """NaN lies in no range, infinity beyond any, and so does an integer too long for a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= threshold.largest


def kept(value: object) -> float | None:
    """What an event keeps of a signal: a number, or nothing where it is none that can be written down."""
    if isinstance(value, float):
        return value
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST else None


def usable_units(busy: float, settings: Settings, weight: float = 1.0) -> int:
    """Units that may be leased at a busy rating, less the reserve; `weight` is the share that the hour leaves."""
    if not busy < FULL:  # NaN is not either
        return 0
    share = _share(max(0.0, busy), settings.points)
    # 1e-9 repairs binary fractions such as 100 * 0.29 = 28.999999999999996
    return max(0, math.floor(settings.total_units * share * weight + 1e-9) - settings.reserve)


def _share(busy: float, points: tuple[tuple[float, float], ...]) -> float:
    if not points:
        return (FULL - busy) / FULL
    line = sorted(points)
    if line[0][0] > 0:
        line.insert(0, (0.0, line[0][1]))
    if line[-1][0] < FULL:
        line.append((FULL, 0.0))
    for (left, high), (right, low) in pairwise(line):
        if left <= busy <= right:
            return high + (low - high) * (busy - left) / (right - left)
    return 0.0


def bottleneck(signals: Iterable[tuple[str, float]]) -> str | None:
    """The signal that is rated highest, in words; none where nothing is busy."""
    name, rating = max(signals, key=lambda signal: signal[1], default=("", 0.0))
    return f"{name} is rated {rating:.1f}" if rating > 0 else None


class Sample:
    """The latest sample of one source."""

    __slots__ = ("at", "ratings", "reasons", "signals")

    def __init__(
        self, at: int, signals: dict[str, float | None], ratings: dict[str, float], reasons: tuple[str, ...]
    ) -> None:
        self.at = at
        self.signals = signals
        self.ratings = ratings
        self.reasons = reasons


class Load:
    """What is known of the load: samples by source, the rating, and the capacity at the last recalculation."""

    __slots__ = (
        "blind",
        "busy",
        "fresh_until",
        "measured",
        "measured_at",
        "rated_at",
        "rating",
        "reasons",
        "recalculated_at",
        "samples",
        "signals",
        "usable",
    )

    def __init__(self, settings: Settings) -> None:
        self.samples: dict[str, Sample] = {}
        self.fresh_until = self._fresh_until(settings)
        """The last moment at which `stale` names nobody: it is asked for every grant."""
        self.rating = FULL if settings.fixed_busy is None else settings.fixed_busy
        self.rated_at: int | None = None
        self.signals: dict[str, float] = {}
        self.reasons: tuple[str, ...] = () if settings.fixed_busy is not None else ("no sample of load yet",)
        self.busy = self.rating
        self.usable = usable_units(self.busy, settings)
        self.recalculated_at: int | None = None
        self.blind = False
        """Whether the capacity was last reckoned without a word from somebody who has to speak."""
        self.measured = self.rating
        self.measured_at: int | None = None
        """The last rating that was measured. Silence counts as 10 too, but there is nothing to fall from."""

    def hear(self, source: str, sample: Sample, settings: Settings) -> None:
        """A source has spoken."""
        self.samples[source] = sample
        self.fresh_until = self._fresh_until(settings)

    def withdraw(self, source: str, settings: Settings) -> None:
        """A source will not speak any more."""
        del self.samples[source]
        self.fresh_until = self._fresh_until(settings)

    def take(self, at: int, rating: float, signals: dict[str, float], reasons: tuple[str, ...], *, blind: bool) -> None:
        """The rating is this from now on."""
        self.rating, self.signals, self.reasons, self.rated_at = rating, signals, reasons, at
        if not blind:
            self.measured, self.measured_at = rating, at

    def stale(self, now: int, settings: Settings) -> list[str]:
        """Sources whose word is missing or too old."""
        if settings.fixed_busy is not None:
            return []
        missing = [source for source in settings.required_sources if source not in self.samples]
        old = [source for source, sample in self.samples.items() if now - sample.at > settings.stale_after]
        return missing + old

    def usable_at(self, now: int) -> int:
        """Usable units if a lease were granted now; none while any source is silent."""
        return self.usable if now <= self.fresh_until else 0

    def _fresh_until(self, settings: Settings) -> float:
        if settings.fixed_busy is not None:
            return math.inf
        if not self.samples.keys() >= set(settings.required_sources):
            return -math.inf
        return min((sample.at for sample in self.samples.values()), default=math.inf) + settings.stale_after

    def rate(self, now: int, settings: Settings) -> tuple[float, dict[str, float], tuple[str, ...]]:
        """The rating: the maximum of all signals, rising at once and falling with the half-life.

        What was 10 only because nobody spoke does not fall: the first word counts as it stands.
        """
        if settings.fixed_busy is not None:
            return settings.fixed_busy, {}, ()
        signals: dict[str, float] = {}
        reasons: list[str] = []
        for source, sample in self.samples.items():
            reasons += sample.reasons
            for name, rating in sample.ratings.items():
                signals[name] = max(rating, signals.get(name, 0.0))
            if not sample.ratings:
                signals[source] = FULL
        for source in self.stale(now, settings):
            signals[source] = FULL
            reasons.append(f"no fresh sample from {source}")
        fresh = max(signals.values(), default=FULL)
        return self._fall(fresh, now, settings.fall_half_life), signals, tuple(reasons)

    def words(self, now: int, settings: Settings) -> tuple[str, ...]:
        """Why the gate stands where it stands: what is busiest, and whether it has yet to follow a rating that fell."""
        found = [bottleneck(self.signals.items())]
        if self.recalculated_at is not None and self.busy - self.rating >= 0.1 and not self.blind:
            left = max(0, self.recalculated_at + settings.recalculate - now) / 1000
            found.append(f"capacity was reckoned at {self.busy:.1f} and will be again in {left:.0f} s")
        return (*self.reasons, *(text for text in found if text))

    def _fall(self, fresh: float, now: int, half_life: int) -> float:
        if fresh >= self.measured or self.measured_at is None:
            return fresh
        left: float = 2.0 ** (-max(0, now - self.measured_at) / half_life)
        return round(fresh + (self.measured - fresh) * left, 6)
