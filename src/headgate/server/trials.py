"""Calls on policies that are tried out: how a shadow does, and experiments."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.core.quantities import duration
from headgate.policy.errors import PolicyForbidden
from headgate.policy.experiments import Experiment
from headgate.policy.measuring import ArmFigures, ExperimentReport
from headgate.policy.shadowing import Parting, ShadowReport
from headgate.policy.statistics import Interval
from headgate.policy.template_library import templates
from headgate.policy.trying import Trials
from headgate.server import strict
from headgate.server.problems import Unavailable
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.wire import trials as w
from headgate.wire.http import Problem
from headgate.wire.simulating import IntervalOut, PolicyIn

routes = Routes()
BASE = "/v2/admin/scheduler"


ID = BASE + "/experiments/{id}"


class ShadowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version, from when on, and how many of the last differences to show."""

    version: str | None = None
    since: Annotated[float, Meta(ge=0, lt=1e12)] | None = None
    recent: Annotated[int, Meta(ge=1, le=1_000)] = 20


@routes.add(
    "GET",
    f"{BASE}/shadow",
    "read",
    "policy:edit",
    query=ShadowQuery,
    replies={200: w.ShadowOut, 404: Problem},
    tenants=False,
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


# -- experiments --------------------------------------------------------------------------------------------------


@routes.add(
    "POST", f"{BASE}/experiments", "policy:activate", body=w.ExperimentIn, replies={201: w.ExperimentOut},
    audit=True, tenants=False,
)  # fmt: skip
async def start_experiment(service: Service, call: Call) -> Reply:
    """Let two policies decide in turn: by windows of time, by tenant or by pool."""
    asked = strict.read_as(call.body, w.ExperimentIn)
    window = duration(asked.window, "window")
    who, why = call.caller.name, asked.why[:1_000]

    def start() -> Experiment:
        a, b = (_version(service, each, who) for each in (asked.a, asked.b))
        return _trials(service).start(a, b, split=asked.split, window=window, who=who, why=why)

    return Reply(_experiment(await asyncio.to_thread(start), service.now()), 201)


def _trials(service: Service) -> Trials:
    """Experiments, if this server can run them."""
    try:
        return service.policies.trials
    except PolicyForbidden as error:
        raise Unavailable(str(error)) from None


def _version(service: Service, asked: PolicyIn, who: str) -> str | None:
    """The version that a policy is, kept in the library if it was not there; none: the platform policy."""
    policies = service.policies
    if asked.source is not None:
        return policies.keep(asked.language, asked.source, asked.name, who=who, why="for an experiment").id
    if asked.name == "active":
        return policies.library.pointer().deciding
    if asked.name == "platform":
        return None
    known = next((template for template in templates() if template.name == asked.name), None)
    if known is not None:
        return policies.keep(known.language, known.source, known.name, who=who, why="for an experiment").id
    return policies.library.get(asked.name).id


@routes.add("GET", f"{BASE}/experiments", "read", "policy:edit", replies={200: w.ExperimentsOut}, tenants=False)
async def list_experiments(service: Service, call: Call) -> Reply:
    """All experiments, newest first."""
    found = await asyncio.to_thread(_trials(service).experiments.all)
    return Reply(w.ExperimentsOut([_experiment(each, service.now()) for each in found]))


@routes.add("GET", ID, "read", "policy:edit", replies={200: w.ExperimentOut}, tenants=False)
async def get_experiment(service: Service, call: Call) -> Reply:
    """One experiment with what it shows so far; `current` is the one that runs, or ran last."""
    found = await asyncio.to_thread(_trials(service).report, _id(call))
    return Reply(_experiment(found.experiment, service.now(), _results(found)))


@routes.add(
    "POST", f"{ID}/stop", "policy:activate", body=w.StopIn, optional_body=True, replies={200: w.ExperimentOut},
    audit=True, tenants=False,
)  # fmt: skip
async def stop_experiment(service: Service, call: Call) -> Reply:
    """End an experiment: the active policy decides again, or the arm that is to be kept."""
    asked = strict.read_as(call.body, w.StopIn) if call.body else w.StopIn()
    trials, who = _trials(service), call.caller.name
    why = asked.why[:1_000]
    stopped = await asyncio.to_thread(trials.stop, _id(call), keep=asked.keep, who=who, why=why)
    return Reply(_experiment(stopped, service.now()))


def _id(call: Call) -> str | None:
    return None if call["id"] == "current" else call["id"]


def _experiment(found: Experiment, now: int, results: w.ResultsOut | None = None) -> w.ExperimentOut:
    return w.ExperimentOut(
        found.id, found.running, found.a or "platform", found.b or "platform", found.split, found.window / 1000,
        found.started_at / 1000, found.who, found.why,
        None if found.ended_at is None else found.ended_at / 1000, found.ended_why,
        found.arm_at(now) if found.running and found.split == "time" else None, dict(found.assigned), results,
    )  # fmt: skip


def _results(found: ExperimentReport) -> w.ResultsOut:
    intervals = (_interval(each) for each in (found.wait, found.slowdown, found.utilisation))
    return w.ResultsOut(found.until / 1000, found.blocks, _arm(found.a), _arm(found.b), *intervals)


def _arm(found: ArmFigures) -> w.ArmOut:
    return w.ArmOut(found.version, found.jobs, found.waiting, found.wait, found.slowdown, found.utilisation)


def _interval(found: Interval | None) -> IntervalOut | None:
    return None if found is None else IntervalOut(found.mean, found.low, found.high)
