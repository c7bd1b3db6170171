"""Settings of the core, with the defaults of the domain."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from headgate.core.conform import conform
from headgate.core.errors import InvalidSettings
from headgate.core.job import CLASSES
from headgate.core.job_input import Limits
from headgate.core.retention import Retention, check_retention


class Threshold(msgspec.Struct, frozen=True):
    """Where a signal begins to count and where it means 10. Values above `largest` are not believed."""

    low: float
    high: float
    largest: float = 1e9


SIGNALS = {
    "cpu": Threshold(0.5, 1.0, 1e4),
    "memory": Threshold(0.7, 0.95, 1.0),
    "disk": Threshold(0.8, 0.98, 1.0),
    "disk_io": Threshold(0.5, 1.0, 1e4),
    "network": Threshold(0.6, 1.0, 1e4),
    "gpu": Threshold(0.8, 1.0, 1.0),
    "gpu_memory": Threshold(0.85, 0.98, 1.0),
    "gpu_temperature": Threshold(80, 95, 200),
    "pressure_cpu": Threshold(0.3, 0.9, 1.0),
    "pressure_memory": Threshold(0.05, 0.4, 1.0),
    "pressure_io": Threshold(0.2, 0.8, 1.0),
    "api_latency": Threshold(0.25, 2.0, 1e5),
    "api_inflight": Threshold(50, 500, 1e9),
    "api_errors": Threshold(0.02, 0.25, 1.0),
}
"""Default thresholds: shares are 0..1, `cpu` is the share of the cores in use, latency is the p95 in seconds."""


class Window(msgspec.Struct, frozen=True):
    """Hours of the week, and the share of the capacity that is usable in them."""

    days: str
    """`mon-fri`, `sat,sun`, `wed`: the days on which the window begins."""
    start: int
    end: int
    """Hours 0..24; an end at or before the start lies on the next day."""
    weight: float


class TimeOfDay(msgspec.Struct, frozen=True):
    """Capacity by the hour of the week: what was learned from the load, and what was set by hand, which wins."""

    windows: tuple[Window, ...] = ()
    learn: bool = True
    """Whether hours without a window use what was learned."""
    least: float = 0.25
    """No learned weight is below this: a busy past alone never shuts the gate."""
    utc_offset: int = 0
    """Milliseconds to add to the clock for the hours of the place."""


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set about the rules. Durations are milliseconds."""

    total_units: int = 100
    reserve: int = 0
    points: tuple[tuple[float, float], ...] = ()
    """(busy, usable share) pairs that replace the straight line from (0, 1) to (10, 0)."""
    recalculate: int = 60_000
    poll: int = 5_000
    stale_polls: int = 3
    fall_half_life: int = 30_000
    signals: dict[str, Threshold] = msgspec.field(default_factory=lambda: dict(SIGNALS))
    required_sources: tuple[str, ...] = ("host",)
    forget_source: int = 600_000
    """A source that is not required and has been silent this long is taken to be gone: its application ended."""
    fixed_busy: float | None = None
    """A fixed rating for tests and for work that must not look at the machine."""
    time_of_day: TimeOfDay | None = None
    """Weigh the capacity by the hour of the week; none: every hour counts in full."""

    lease_ttl: int = 30_000
    max_queue_depth: int = 0
    max_dependency_depth: int = 10_000
    ageing: int = 3_600_000
    """Waiting this long lifts a job by one class; 0 turns ageing off."""
    stagger: int = 0
    fair_half_life: int = 3_600_000

    preemption: bool = True
    preempting_classes: tuple[int, ...] = (0,)
    preemptible_classes: tuple[int, ...] = (2, 3)
    preemption_grace: int = 10_000

    worker_silence: int = 60_000
    pool_degraded: int = 15_000
    pool_offline: int = 60_000
    forget_offline: int = 86_400_000
    required_pools: tuple[str, ...] = ()
    """Pools whose machines must have reported before anything is granted there, also after a restart."""
    retain_finished: int = 10_000
    retention: Retention = Retention()
    """How long what is over stays in the store."""
    limits: Limits = Limits()

    @property
    def stale_after(self) -> int:
        """The age at which a sample of load is no longer believed."""
        return self.poll * self.stale_polls


_POSITIVE = (
    "recalculate",
    "poll",
    "stale_polls",
    "fall_half_life",
    "forget_source",
    "lease_ttl",
    "fair_half_life",
    "max_dependency_depth",
    "worker_silence",
    "pool_degraded",
    "pool_offline",
    "forget_offline",
)
_NOT_NEGATIVE = (
    "total_units",
    "reserve",
    "max_queue_depth",
    "ageing",
    "stagger",
    "preemption_grace",
    "retain_finished",
)


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def days_of(text: str) -> tuple[int, ...]:
    """The days that a text such as `mon-fri,sun` names, Monday being 0."""
    found: list[int] = []
    for part in text.replace(" ", "").lower().split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise InvalidSettings(f"{part!r} is not a day or a range of days such as mon-fri", field="days")
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        found += [day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)]
    return tuple(dict.fromkeys(found))


def _check_time_of_day(given: TimeOfDay) -> None:
    if not 0 <= given.least <= 1:
        raise InvalidSettings("must be between 0 and 1", field="time_of_day.least")
    if abs(given.utc_offset) > 24 * 3_600_000:
        raise InvalidSettings("must be at most a day", field="time_of_day.utc_offset")
    for place, window in enumerate(given.windows):
        field = f"time_of_day.windows[{place}]"
        try:
            days_of(window.days)
        except InvalidSettings as error:
            raise InvalidSettings(str(error).partition(": ")[2], field=f"{field}.days") from None
        if not (0 <= window.start <= 23 and 0 <= window.end <= 24):
            raise InvalidSettings("needs hours from 0 to 24", field=field)
        if not 0 <= window.weight <= 1:
            raise InvalidSettings("must be between 0 and 1", field=f"{field}.weight")


def check_settings(settings: Settings) -> Settings:
    """Refuse settings that make no sense, naming the field; those that do come back with every value of its type."""
    settings = conform(settings, InvalidSettings)
    for field in _POSITIVE:
        if getattr(settings, field) <= 0:
            raise InvalidSettings("must be greater than zero", field=field)
    for field in _NOT_NEGATIVE:
        if getattr(settings, field) < 0:
            raise InvalidSettings("must not be negative", field=field)
    for field in Limits.__struct_fields__:
        if getattr(settings.limits, field) <= 0:
            raise InvalidSettings("must be greater than zero", field=f"limits.{field}")
    _check_names_and_classes(settings)
    _check_load(settings)
    if settings.time_of_day is not None:
        _check_time_of_day(settings.time_of_day)
    return settings


def _check_names_and_classes(settings: Settings) -> None:
    for field in ("required_sources", "required_pools"):
        if not all(name.strip() for name in getattr(settings, field)):
            raise InvalidSettings("must not name nobody", field=field)
    for field in ("preempting_classes", "preemptible_classes"):
        if any(not 0 <= each < len(CLASSES) for each in getattr(settings, field)):
            known = ", ".join(f"{place} ({name})" for place, name in enumerate(CLASSES))
            raise InvalidSettings(f"names a class that does not exist; there are {known}", field=field)
    if settings.pool_offline < settings.pool_degraded:
        raise InvalidSettings("must not be shorter than pool_degraded", field="pool_offline")


def _check_load(settings: Settings) -> None:
    busy = settings.fixed_busy
    if busy is not None and not 0 <= busy <= 10:
        raise InvalidSettings("must be between 0 and 10", field="fixed_busy")
    for name, threshold in settings.signals.items():
        low, high, largest = threshold.low, threshold.high, threshold.largest
        if not name.strip() or not 0 <= low < high <= largest:
            text = f"needs 0 <= low < high <= largest; they are {low:g}, {high:g} and {largest:g}"
            raise InvalidSettings(text if name.strip() else "a signal needs a name", field=f"signals.{name}")
    check_retention(settings.retention)
    line = sorted(settings.points)
    if any(not (0 <= busy <= 10 and 0 <= share <= 1) for busy, share in line):
        raise InvalidSettings("needs pairs of busy 0..10 and share 0..1", field="points")
    if len({busy for busy, _ in line}) != len(line):
        raise InvalidSettings("names a busy value twice", field="points")
    if any(left < right for (_, left), (_, right) in pairwise(line)):
        raise InvalidSettings("leaves more at a higher rating", field="points")
