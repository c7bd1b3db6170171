"""Bodies of the calls on policies that are tried out beside or against the one that decides."""

from __future__ import annotations

import msgspec

from headgate.wire.http import Json, Out


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
