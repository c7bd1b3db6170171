"""Tenants: hard quotas, weights, and the decayed usage that fair share is reckoned from."""

from __future__ import annotations

import math

import msgspec

from headgate.core.quantities import Amount, Resources


class TenantSpec(msgspec.Struct, frozen=True, array_like=True):
    """A tenant's quotas and weight; a quota that is none is unlimited."""

    id: str
    weight: float = 1.0
    max_units: int | None = None
    max_leases: int | None = None
    max_queued: int | None = None
    max_resources: Resources = ()


class Tenant:
    """A tenant at run time."""

    __slots__ = ("declared", "leased_units", "leases", "limited", "limits", "live", "spec", "usage", "usage_at", "used")

    def __init__(self, spec: TenantSpec, *, declared: bool) -> None:
        self.describe(spec, declared=declared)
        self.leased_units = 0
        self.leases = 0
        self.live = 0
        self.used: dict[str, Amount] = {}
        self.usage = 0.0
        self.usage_at = 0

    @property
    def queued(self) -> int:
        """Jobs that wait, for whatever reason: every other live job holds a lease."""
        return self.live - self.leases

    def describe(self, spec: TenantSpec, *, declared: bool) -> None:
        """Take over quotas and weight. Undeclared tenants exist because a job named them."""
        self.spec = spec
        self.declared = declared
        self.limits = dict(spec.max_resources)
        self.limited = bool(self.limits) or spec.max_leases is not None or spec.max_units is not None
        """Whether any quota on what it holds could be reached."""

    def decayed(self, now: int, half_life: int) -> float:
        """Past usage in share-milliseconds, halved every `half_life`."""
        if now <= self.usage_at:
            return self.usage
        left: float = 2.0 ** ((self.usage_at - now) / half_life)
        return self.usage * left

    def charge(self, share: float, held: int, now: int, half_life: int) -> None:
        """Add the share of the cluster that a lease held for `held` milliseconds."""
        self.usage = self.decayed(now, half_life) + share * held
        self.usage_at = now

    def standing(self, present_share: float, now: int, half_life: int) -> float:
        """How much of the cluster the tenant has and had, against its weight: the lowest goes first."""
        past = self.decayed(now, half_life) * math.log(2) / half_life
        return (present_share + past) / self.spec.weight
