"""Calls on policies that are tried out: how a shadow does, and experiments."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.policy.shadowing import Parting, ShadowReport
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.wire import trials as w

routes = Routes()
BASE = "/v2/admin/scheduler"


class ShadowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version, from when on, and how many of the last differences to show."""

    version: str | None = None
    since: Annotated[float, Meta(ge=0, lt=1e12)] | None = None
    recent: Annotated[int, Meta(ge=1, le=1_000)] = 20


@routes.add(
    "GET", f"{BASE}/shadow", "read", "policy:edit", query=ShadowQuery, replies={200: w.ShadowOut}, tenants=False
)
async def get_shadow(service: Service, call: Call) -> Reply:
    """How the version that watches does: how often it agrees, where it would have done otherwise, how long it takes."""
    asked: ShadowQuery = call.query
    policies = service.policies
    since = None if asked.since is None else round(asked.since * 1000)
    found = await asyncio.to_thread(policies.shadow_report, asked.version, since=since, recent=asked.recent)
    watching = policies.status().shadow == found.version
    return Reply(_shadow(found, watching=watching))


def _shadow(found: ShadowReport, *, watching: bool) -> w.ShadowOut:
    return w.ShadowOut(
        found.version, watching, found.since / 1000, found.until / 1000, found.asked, found.agreed, found.rate,
        found.failures, found.decided_us, found.shadow_us, found.slowest_us,
        None if found.first is None else _parting(found.first), [_parting(each) for each in found.recent],
    )  # fmt: skip


def _parting(found: Parting) -> w.PartingOut:
    return w.PartingOut(
        found.decision, found.at / 1000, found.decided_by, found.actions, found.shadow_actions, found.failure
    )
