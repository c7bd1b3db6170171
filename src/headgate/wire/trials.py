"""Bodies of the calls on policies that are tried out beside or against the one that decides."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.wire.http import Body, Json, Out
from headgate.wire.simulating import IntervalOut, PolicyIn


class PartingOut(Out, frozen=True):
    """A decision in which the version that watches differs from the one that decided."""

    decision: str
    at: float
    decided_by: str
    actions: list[dict[str, Json]]
    shadow_actions: list[dict[str, Json]]
    failure: str = ""


class ShadowOut(Out, frozen=True):
    """How a version did that only watched. Times a decision are microseconds, on average."""

    version: str
    watching: bool
    since: float
    until: float
    asked: int
    agreed: int
    agreement: float | None
    failures: dict[str, int]
    decided_us: float
    shadow_us: float
    slowest_us: int
    first: PartingOut | None = None
    recent: list[PartingOut] = msgspec.field(default_factory=list)


class ExperimentIn(Body, frozen=True):
    """Two policies to decide in turn: `a` is what decides now unless another is named.

    Split by alternating windows of time, by tenant or by pool. `window` is seconds or a text such as '10m': how long an
    arm decides at a time, and the blocks in which the arms are compared.
    """

    b: PolicyIn
    a: PolicyIn = PolicyIn()
    split: Literal["time", "tenant", "pool"] = "time"
    window: float | str = 600.0
    why: str = ""


class StopIn(Body, frozen=True):
    """End an experiment, and put one of its arms in charge if one is to be kept."""

    keep: Literal["a", "b"] | None = None
    why: str = ""


class ArmOut(Out, frozen=True):
    """One arm: means in seconds over its jobs, and the share of all units in use while, or where, it decides."""

    version: str
    jobs: int
    waiting: int
    wait: float
    slowdown: float
    utilisation: float


class ResultsOut(Out, frozen=True):
    """What it shows: the arms, and b against a. No interval: too few blocks yet."""

    until: float
    blocks: int
    a: ArmOut
    b: ArmOut
    wait: IntervalOut | None = None
    slowdown: IntervalOut | None = None
    utilisation: IntervalOut | None = None


class ExperimentOut(Out, frozen=True):
    """An experiment; `assigned` says which tenants or pools belong to which arm."""

    id: str
    running: bool
    a: str
    b: str
    split: str
    window: float
    started_at: float
    who: str = ""
    why: str = ""
    ended_at: float | None = None
    ended_why: str = ""
    deciding: str | None = None
    """The arm that decides now, where windows of time alternate."""
    assigned: dict[str, str] = msgspec.field(default_factory=dict)
    results: ResultsOut | None = None


class ExperimentsOut(Out, frozen=True):
    """All experiments, newest first, without their results."""

    experiments: list[ExperimentOut]
