"""Load and status on the wire."""

from __future__ import annotations

from headgate.wire.base import Body, Json, Out


class LoadIn(Body, frozen=True):
    """A sample of an application's own load; one request at a time (`latency_s`, `error`) or totals."""

    source: str = "api"
    latency_s: float | None = None
    in_flight: int | None = None
    error: bool | None = None
    error_rate: float | None = None


class LoadOut(Out, frozen=True):
    """The busy rating after a sample."""

    busy: float


class CapacityOut(Out, frozen=True):
    """The gate: the rating, what it leaves, and what is taken."""

    busy: float
    gate: float
    total_units: int
    usable_units: int
    leased_units: int
    free_units: int
    signals: dict[str, float] = {}
    reasons: list[str] = []


class PredictionsOut(Out, frozen=True, omit_defaults=False):
    """How expected starts turned out: of those `started`, how many inside, before and after their interval."""

    stated: int
    started: int
    inside: int
    before: int
    after: int
    share_inside: float | None
    """Four fifths are meant to be inside; none before the first has started."""


class StatusOut(Out, frozen=True):
    """One look at everything."""

    version: str
    now: float
    epoch: int
    ready: bool
    capacity: CapacityOut
    jobs: dict[str, int]
    ready_by_class: dict[str, int]
    workers: dict[str, int]
    policy: dict[str, Json]
    degraded: list[str] = []
    predictions: PredictionsOut | None = None
