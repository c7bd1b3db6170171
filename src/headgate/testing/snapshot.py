"""The whole state as bytes: equal bytes, equal states.

Left out is only what has no meaning of its own: entries of the queue that are passed over and the marks of buckets
that are known not to fit.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core.cluster import Pool, Worker
from headgate.core.state import Job, State
from headgate.core.tenants import Tenant

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_NOT_OF_A_JOB = ("kind", "lease", "parked")


def snapshot(state: State) -> bytes:
    """Everything in the state, in one canonical form."""
    return _encode([_carried(state), _kept_beside(state)])


def replayable(state: State) -> bytes:
    """The part that events carry: a fresh state to which the same events are applied has the same bytes."""
    return _encode(_carried(state))


def difference(before: bytes, after: bytes) -> str:
    """Say which parts differ, for the message of a failing test."""
    return "; ".join(_differences(msgspec.msgpack.decode(before), msgspec.msgpack.decode(after), "state"))[:2_000]


def _carried(state: State) -> dict[str, Any]:
    return {
        "jobs": [_job(job) for job in state.jobs.values()],
        "counts": dict(state.counts),
        "kinds": sorted((_encode(k.of), k.job_class, k.jobs) for k in state.kinds.values() if k.jobs),
        "ready": sorted(job.id for job in state.ready),
        "ready_counts": [state.ready.size, *state.ready.by_class],
        "graph": _graph(state),
        "waits": dict(state.waits._at),  # noqa: SLF001  # a snapshot looks inside on purpose
        "keys": sorted([*owner, *known] for owner, known in state.keys.items()),
        "finished": list(state.finished),
        "leases": list(state.leases.values()),
        "settled": dict(state.settled),
        "preempting": {job_id: sorted(leases) for job_id, leases in state.preempting.items()},
        "workers": [_worker(worker) for worker in state.workers.values()],
        "open": list(state.open_workers),
        "pools": {pool_id: _pool(pool) for pool_id, pool in state.pools.items()},
        "tenants": {tenant_id: _tenant(tenant) for tenant_id, tenant in state.tenants.items()},
        "models": state.models,
        "documents": sorted([*name, body] for name, body in state.documents.items()),
        "load": _load(state),
        "totals": state.totals,
        "numbers": [state.epoch, state.seq, state.tokens, state.leased_units, state.room],
        "policy_wait": state.policy_wait,
    }


def _kept_beside(state: State) -> dict[str, Any]:
    """What commands keep without an event: how far time has come, where tenants stand, when timers look again."""
    return {
        "now": state.now,
        "ticked_at": state.ticked_at,
        "restood_at": state.restood_at,
        "order": [job.id for job in state.ready],
        "lines": _lines(state),
        "lease_timers": dict(state.lease_timers._at),  # noqa: SLF001
    }


def _job(job: Job) -> dict[str, Any]:
    fields = {name: getattr(job, name) for name in job.__struct_fields__ if name not in _NOT_OF_A_JOB}
    lease = None if job.lease is None else job.lease.id
    return {**fields, "lease": lease, "kind": _encode(job.kind.of), "class": job.kind.job_class}


def _lines(state: State) -> list[Any]:
    orders = state.ready._order  # noqa: SLF001
    return [[(line.tenant, standing, number) for standing, number, line in order] for order in orders]


def _graph(state: State) -> dict[str, Any]:
    graph = state.graph
    return {
        "pending": {job_id: sorted(pending) for job_id, pending in graph.waiting().items()},
        "children": graph._children,  # noqa: SLF001
        "depth": graph._depth,  # noqa: SLF001
    }


def _worker(worker: Worker) -> dict[str, Any]:
    names = ("status", "registered_at", "last_seen", "last_used", "completed", "running", "claims", "free", "spec")
    return {**{name: getattr(worker, name) for name in names}, "leases": list(worker.leases), "limit": worker.limit}


def _pool(pool: Pool) -> dict[str, Any]:
    return {name: getattr(pool, name) for name in Pool.__slots__}


def _tenant(tenant: Tenant) -> dict[str, Any]:
    return {name: getattr(tenant, name) for name in Tenant.__slots__}


def _load(state: State) -> dict[str, Any]:
    load = state.load
    plain = {name: getattr(load, name) for name in type(load).__slots__ if name != "samples"}
    samples = {source: [s.at, s.signals, s.ratings, s.reasons] for source, s in load.samples.items()}
    return {**plain, "samples": samples}


def _differences(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted({*before, *after}, key=str)
        return [d for name in names for d in _differences(before.get(name), after.get(name), f"{path}.{name}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [d for index, (a, b) in pairs for d in _differences(a, b, f"{path}[{index}]")]
    return [] if _encode(before) == _encode(after) else [f"{path}: {before!r} became {after!r}"]
