"""Calls on policies: check, deploy, roll back, look at decisions. Policies block, so all of it runs in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from headgate.core.errors import InvalidInput, NotFound
from headgate.policy.decisions import KIND, Decision, load, unpack
from headgate.policy.experiments import running_in
from headgate.policy.library import Pointer, Version
from headgate.policy.runtime import platform_source, platform_version
from headgate.policy.template_library import templates
from headgate.server import strict
from headgate.server.decision_log import DecisionsQuery, look
from headgate.server.routing import Call, Reply, Routes, Urgency
from headgate.server.service import Service
from headgate.wire import http as w

routes = Routes()
R = TypeVar("R")
BASE = "/v2/admin/scheduler"


class DecisionNotFound(NotFound):
    """There is no such decision, or it is no longer kept."""


class VersionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether sources are wanted too."""

    sources: bool = True


async def _in_thread(work: Callable[[], R]) -> R:
    return await asyncio.to_thread(work)


# -- sources ------------------------------------------------------------------------------------------------------


@routes.add("POST", f"{BASE}/validate", "policy:edit", body=w.SourceIn, replies={200: w.ValidationOut})
async def validate_policy(service: Service, call: Call) -> Reply:
    """Check a policy without deploying it: diagnostics with line and column, the generated Lua, timings."""
    given = strict.read_as(call.body, w.SourceIn)
    policies = service.policies
    found = await _in_thread(lambda: policies.validate(given.language, given.source, name=_name(given.name)))
    notes = [w.DiagnosticOut(**msgspec.structs.asdict(note)) for note in found.diagnostics]
    version = None if found.prepared is None else found.prepared.id
    times = (found.contexts, found.p50_us, found.p99_us, found.limit_ms)
    return Reply(w.ValidationOut(found.ok, notes, found.lua, version, *times))


def _name(name: str | None) -> str | None:
    if name is not None and (not name.strip() or len(name) > 100 or not name.isprintable()):
        raise InvalidInput("must be 1 to 100 printable characters", field="name")
    return name


@routes.add(
    "POST", f"{BASE}/deploy", "policy:edit", "policy:activate", body=w.DeployIn, replies={201: w.VersionOut},
    audit=True, tenants=False,
)  # fmt: skip
async def deploy_policy(service: Service, call: Call) -> Reply:
    """Check a policy, keep it as a version, and put it in charge or let it watch."""
    given = strict.read_as(call.body, w.DeployIn)
    call.caller.allow(("policy:activate",) if given.mode == "active" else ("policy:edit",), tenants=False)
    policies = service.policies
    version = await _in_thread(
        lambda: policies.deploy(
            given.language,
            given.source,
            name=_name(given.name),
            mode=given.mode,
            base=given.base_version,
            force=given.force,
            who=call.caller.name,
            why=given.why[:1_000],
        )
    )
    return Reply(_version(version, sources=False, status=given.mode), 201)


def _version(version: Version, *, sources: bool, status: str = "") -> w.VersionOut:
    return w.VersionOut(
        version.id,
        version.name,
        version.version,
        version.language,
        version.sha256,
        version.created_at / 1000,
        version.author,
        version.note,
        version.source if sources else None,
        version.lua if sources else None,
        status,
    )


@routes.add(
    "GET", f"{BASE}/versions", "read", "policy:edit", query=VersionsQuery, replies={200: w.VersionsOut}, tenants=False
)
async def list_versions(service: Service, call: Call) -> Reply:
    """Every version ever deployed, which one decides, and every move between them."""
    library = service.policies.library
    versions, pointer = await _in_thread(lambda: (library.versions(), library.pointer()))
    shown = [_version(v, sources=call.query.sources, status=_status(v, pointer)) for v in versions]
    moves = [w.MoveOut(move.at / 1000, move.active, move.shadow, move.who, move.why) for move in pointer.moves]
    running = running_in(service.state.documents)
    experiment = None if running is None else running.id
    return Reply(w.VersionsOut(shown, pointer.active, pointer.shadow, _tripped(pointer), moves, experiment))


def _status(version: Version, pointer: Pointer) -> str:
    if version.id == pointer.active:
        return "tripped" if pointer.tripped is not None else "active"
    return "shadow" if version.id == pointer.shadow else ""


def _tripped(pointer: Pointer) -> dict[str, Any] | None:
    return None if pointer.tripped is None else msgspec.to_builtins(pointer.tripped)


def _pointer(pointer: Pointer) -> Reply:
    return Reply(w.PointerOut(pointer.active, pointer.shadow, _tripped(pointer)))


@routes.add(
    "POST", f"{BASE}/rollback", "policy:activate", body=w.RollbackIn, optional_body=True, replies={200: w.PointerOut},
    audit=True, tenants=False,
)  # fmt: skip
async def rollback_policy(service: Service, call: Call) -> Reply:
    """Back to a version, or to the one before."""
    given = strict.read_as(call.body, w.RollbackIn) if call.body else w.RollbackIn()
    policies, who = service.policies, call.caller.name
    return _pointer(await _in_thread(lambda: policies.rollback(given.to, who=who, why=given.why[:1_000])))


@routes.add(
    "POST", f"{BASE}/enable", "policy:activate", body=w.EnableIn, optional_body=True, replies={200: w.PointerOut},
    audit=True, tenants=False,
)  # fmt: skip
async def enable_policy(service: Service, call: Call) -> Reply:
    """Let a tripped policy decide again."""
    if call.body:
        strict.read_as(call.body, w.EnableIn)
    policies, who = service.policies, call.caller.name
    return _pointer(await _in_thread(lambda: policies.enable(who=who)))


@routes.add("GET", f"{BASE}/templates", "read", "policy:edit", replies={200: w.TemplatesOut})
async def list_templates(service: Service, call: Call) -> Reply:
    """Policies to start from."""
    found = await _in_thread(templates)
    return Reply(w.TemplatesOut([w.TemplateOut(t.name, t.purpose, t.language, t.source) for t in found]))


@routes.add("GET", f"{BASE}/platform-source", "read", "policy:edit", replies={200: w.PlatformSourceOut})
async def get_platform_source(service: Service, call: Call) -> Reply:
    """The platform policy, which decides when no other does."""
    return Reply(w.PlatformSourceOut("lua", platform_version(), platform_source()))


# -- decisions ----------------------------------------------------------------------------------------------------


@routes.add(
    "GET",
    "/v2/admin/decisions",
    "read",
    "policy:edit",
    query=DecisionsQuery,
    replies={200: w.DecisionsOut},
    tenants=False,
)
async def list_decisions(service: Service, call: Call) -> Reply:
    """Recorded decisions in a range of time, oldest or newest first; of a job, an action, a version, or that failed."""
    found = await service.aside(look, service.engine.writer.store, call.query)
    return Reply(w.DecisionsOut([_decision(decision) for decision in found.decisions], found.following))


@routes.add("GET", "/v2/admin/decisions/{id}", "read", "policy:edit", replies={200: w.DecisionOut}, tenants=False)
async def get_decision(service: Service, call: Call) -> Reply:
    """One decision with its inputs, its answer, its trace and what became of it."""
    rows = await service.aside(service.engine.writer.store.records, KIND, 0, None, call["id"], 1)
    if not rows:
        raise DecisionNotFound(f"there is no decision {call['id']!r}")
    return Reply(_decision(load(rows[0].body), whole=True))


def _decision(decision: Decision, *, whole: bool = False) -> w.DecisionOut:
    shadow = (
        None if decision.shadow is None else dict(zip(_SHADOW, msgspec.structs.astuple(decision.shadow), strict=True))
    )
    refused = [{"action": r.action, "job_id": r.job_id, "code": r.code, "detail": r.detail} for r in decision.refused]
    shown = w.DecisionOut(
        decision.id,
        decision.at / 1000,
        decision.decided_by,
        decision.version,
        decision.actions,
        refused,
        decision.failure,
        decision.message,
        decision.took_us,
        decision.waited_us,
        decision.attempted,
        shadow,
        keyframe=decision.keyframe,
        arm=decision.arm,
    )
    if not whole:
        return shown
    return msgspec.structs.replace(
        shown,
        traceback=decision.traceback,
        trace=decision.trace,
        logs=decision.logs,
        question=_named(decision.question),
        told=[_named(delta) for delta in unpack(decision.frame)],
    )


_SHADOW = ("version", "actions", "agrees", "failure", "took_us")


def _named(record: Any) -> dict[str, Any]:
    """A record that travels as a list, with the names of its fields."""
    named = {name: _plain(getattr(record, name)) for name in record.__struct_fields__}
    tag = type(record).__struct_config__.tag
    return named if tag is None else {"type": str(tag), **named}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


@routes.add(
    "POST", "/v2/admin/decisions/{id}/replay", "policy:edit", body=w.ReplayIn, optional_body=True,
    replies={200: w.ReplayOut}, tenants=False, urgency=Urgency.LOOK,
)  # fmt: skip
async def replay_decision(service: Service, call: Call) -> Reply:
    """Ask the same question again: the policy that decided, or a draft in its place; with `trace` line by line."""
    given = strict.read_as(call.body, w.ReplayIn) if call.body else w.ReplayIn()
    policies, source = service.policies, given.source

    def replay() -> Any:
        if source is None:
            return policies.replay(call["id"])
        return policies.try_draft(call["id"], given.language, source)

    found = await _looked_up(replay)
    steps = None
    if given.trace:
        traced = await _looked_up(lambda: policies.trace(call["id"], given.language, source))
        steps = [w.TraceStepOut(**msgspec.structs.asdict(step)) for step in traced.steps]
    return Reply(w.ReplayOut(found.same, found.recorded, found.replayed, found.failure, found.message, steps))


@routes.add(
    "GET", "/v2/admin/decisions/{id}/context", "policy:edit", replies={200: w.DecisionContextOut}, tenants=False,
    urgency=Urgency.LOOK,
)  # fmt: skip
async def get_decision_context(service: Service, call: Call) -> Reply:
    """What is needed to make a decision once more elsewhere: for the debugger, traces and profiles."""
    found = await _looked_up(lambda: service.policies.context(call["id"]))
    given = (found.id, found.version, found.language, found.source, found.lua, found.frames)
    return Reply(w.DecisionContextOut(*given, _named(found.question), found.actions, found.failure))


async def _looked_up(work: Callable[[], R]) -> R:
    try:
        return await _in_thread(work)
    except LookupError as error:
        raise DecisionNotFound(str(error)) from None
