"""Calls on workers: join, look, drain and back, evict, leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from headgate import views
from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.job_input import LIMITS, pairs, text
from headgate.core.quantities import resources
from headgate.server import strict
from headgate.server.privacy import own_leases
from headgate.server.routing import Call, Reply, Routes, Urgency
from headgate.server.service import Service
from headgate.wire import http as w

routes = Routes()
_LONGEST_REASON = 1_000
H = TypeVar("H")


class RemoveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether live leases end as expired."""

    force: bool = False


@routes.add(
    "POST",
    "/v2/workers",
    "work",
    body=w.WorkerIn,
    replies={201: w.WorkerOut, 200: w.WorkerOut},
    urgency=Urgency.CLAIM,
    tenants=False,
)
async def register_worker(service: Service, call: Call) -> Reply:
    """A worker joins, or says anew what it is."""
    spec = worker_spec(strict.read_as(call.body, w.WorkerIn))
    known = spec.id in service.state.workers
    await service.engine.do(c.RegisterWorker(spec))
    return Reply(views.worker_out(service.state.worker(spec.id)), 200 if known else 201)


def worker_spec(given: w.WorkerIn) -> WorkerSpec:
    """What a worker says of itself, checked."""
    return WorkerSpec(
        text(given.id, "id", LIMITS),
        text(given.pool, "pool", LIMITS),
        given.slots,
        given.prefetch,
        resources(given.resources, "resources"),
        None if given.model_ref is None else text(given.model_ref, "model_ref", LIMITS),
        tuple(text(gpu, "gpu_ids", LIMITS) for gpu in given.gpu_ids),
        pairs(given.labels, "labels", LIMITS),
        None if given.types is None else tuple(text(kind, "types", LIMITS) for kind in given.types),
        given.pull,
        given.handlers,
    )


@routes.add("GET", "/v2/workers", "read", "work", replies={200: w.WorkersOut})
async def list_workers(service: Service, call: Call) -> Reply:
    """List workers; a token that is bound to a tenant sees no leases of others."""
    return Reply(w.WorkersOut([_seen(service, call, id_) for id_ in service.state.workers]))


@routes.add("GET", "/v2/workers/{id}", "read", "work", replies={200: w.WorkerOut})
async def get_worker(service: Service, call: Call) -> Reply:
    """One worker."""
    return Reply(_seen(service, call, service.state.worker(call["id"]).id))


def _seen(service: Service, call: Call, worker_id: str) -> w.WorkerOut:
    state = service.state
    shown = views.worker_out(state.workers[worker_id])
    if call.caller.tenant is None:
        return shown
    return msgspec.structs.replace(shown, leases=own_leases(call.caller, state, shown.leases))


@routes.add(
    "DELETE",
    "/v2/workers/{id}",
    "work",
    query=RemoveQuery,
    replies={204: None},
    urgency=Urgency.CLAIM,
    audit=True,
    tenants=False,
)
async def remove_worker(service: Service, call: Call) -> Reply:
    """A worker leaves; with live leases only by force, which ends them as expired."""
    await service.engine.do(c.RemoveWorker(call["id"], call.query.force))
    return Reply(b"", 204)


def _change(verb: str, scope: Literal["work", "admin"], body: type[w.ReasonIn] = w.ReasonIn) -> Callable[[H], H]:
    """Enter the call of a change that somebody asks for, with the reason."""
    return routes.add(
        "POST",
        f"/v2/workers/{{id}}/{verb}",
        scope,
        body=body,
        optional_body=True,
        replies={200: w.WorkerOut},
        urgency=Urgency.CLAIM,
        audit=True,
        tenants=False,
    )


@_change("drain", "work", w.DrainIn)
async def drain_worker(service: Service, call: Call) -> Reply:
    """Give a worker no further work; it finishes what it has. With `hold` that outlasts its registering anew."""
    asked = strict.read_as(call.body, w.DrainIn) if call.body else w.DrainIn()
    await service.engine.do(c.DrainWorker(call["id"], asked.reason[:_LONGEST_REASON], asked.hold))
    return Reply(views.worker_out(service.state.worker(call["id"])))


@_change("undrain", "work")
async def undrain_worker(service: Service, call: Call) -> Reply:
    """Give a draining worker work again; one that does not drain stays as it is."""
    await service.engine.do(c.UndrainWorker(call["id"], _reason(call)))
    worker = service.state.worker(call["id"])
    pull = not service.deliveries.listens(worker.id)
    if worker.status == "ready" and worker.spec.pull != pull:  # its stream came or went while it drained
        await service.engine.do(c.RegisterWorker(msgspec.structs.replace(worker.spec, pull=pull)))
    return Reply(views.worker_out(service.state.worker(call["id"])))


@_change("evict", "admin")
async def evict_worker(service: Service, call: Call) -> Reply:
    """Have a worker stop its jobs at once and leave; they queue again, and the attempt does not count."""
    await service.engine.do(c.EvictWorker(call["id"], _reason(call)))
    return Reply(views.worker_out(service.state.worker(call["id"])))


def _reason(call: Call) -> str:
    return strict.read_as(call.body, w.ReasonIn).reason[:_LONGEST_REASON] if call.body else ""
