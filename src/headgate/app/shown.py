"""The engine's words in those of the wire, for connections that need no server."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from headgate.core.events import EVENT_TYPES
from headgate.core.job import ONCE, CommandRun, HttpRun, JobKind, Run
from headgate.core.lease import Lease
from headgate.engine.questions import HistoryEntry, JobInfo, Status
from headgate.wire import http as w
from headgate.wire.shown import predictions_out

_FIELDS = {str(kind.__struct_config__.tag): kind.__struct_fields__ for kind in EVENT_TYPES}
_NOT_SHOWN = ("at", "id", "job_id", "spec")


def seconds(at: int | None) -> float | None:
    """Milliseconds as the wire says them."""
    return None if at is None else at / 1000


def job_out(info: JobInfo) -> w.JobOut:
    """A job."""
    spec, error = info.spec, info.error
    return w.JobOut(
        id=info.id,
        name=spec.name,
        state=str(info.state),
        job_class=info.job_class,
        created_at=info.created_at / 1000,
        queued_at=info.queued_at / 1000,
        attempt=info.attempt,
        payload=msgspec.Raw(spec.payload),
        attributes=msgspec.Raw(spec.attributes),
        seed=spec.seed,
        dependencies=spec.dependencies,
        not_before=seconds(info.not_before),
        deadline=seconds(spec.deadline),
        idempotency_key=spec.idempotency_key,
        retry_of=info.retry_of,
        started_at=seconds(info.started_at),
        ended_at=seconds(info.ended_at),
        worker_id=info.worker_id,
        lease_id=info.lease_id,
        result=msgspec.Raw(b"null" if info.result is None else info.result),
        error=None if error is None else w.ErrorOut(error.code, error.message, error.traceback),
        **_kind(info.kind),
    )


def _kind(kind: JobKind) -> dict[str, Any]:
    same = ("type", "priority", "tenant", "rank", "units", "pool", "model_ref", "max_tokens", "checkpointable")
    shown: dict[str, Any] = {name: getattr(kind, name) for name in (*same, "on_dependency_failure")}
    shown |= {name: dict(getattr(kind, name)) for name in ("resources", "labels", "requires")}
    shown |= {name: seconds(getattr(kind, name)) for name in ("timeout", "estimated_duration")}
    retry = kind.retry
    if retry != ONCE:
        part = {"attempts": retry.attempts, "factor": retry.factor, "jitter": retry.jitter, "on": list(retry.on)}
        shown["retry"] = {**part, "initial": retry.initial / 1000, "max": retry.max / 1000}
    return {**shown, "run": _run(kind.run)}


def _run(run: Run) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(run)
    if isinstance(run, CommandRun):
        shown["env"] = dict(run.env)
    elif isinstance(run, HttpRun):
        shown["headers"] = dict(run.headers)
    return {name: value for name, value in shown.items() if value not in (None, "", {})}


def lease_out(lease: Lease) -> w.LeaseOut:
    """A live lease."""
    return w.LeaseOut(
        lease.id,
        lease.job_id,
        lease.token,
        lease.worker_id,
        lease.units,
        lease.attempt,
        lease.granted_at / 1000,
        lease.expires_at / 1000,
        lease.last_heartbeat / 1000,
        lease.ttl / 1000,
        dict(lease.resources),
        seconds(lease.started_at),
        seconds(lease.fence_at),
    )


def event_out(entry: HistoryEntry) -> w.EventOut:
    """One event of a job; the journal keeps it as a list."""
    data = dict(zip(_FIELDS.get(entry.type, ()), entry.body[1:], strict=False))
    shown = {name: value for name, value in data.items() if name not in _NOT_SHOWN and value not in (None, b"")}
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in shown.items()}
    return w.EventOut(entry.number, entry.at / 1000, entry.type, plain)


def status_out(status: Status) -> w.StatusOut:
    """One look at everything."""
    capacity = w.CapacityOut(
        status.busy,
        status.gate,
        status.total_units,
        status.usable_units,
        status.leased_units,
        status.free_units,
        status.signals,
        list(status.reasons),
    )
    return w.StatusOut(
        version("headgate"),
        status.now / 1000,
        status.epoch,
        True,
        capacity,
        status.states,
        status.ready_by_class,
        status.workers,
        {},
        list(status.degraded),
        predictions_out(status.predictions),
    )
