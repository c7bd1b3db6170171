"""The domain in the words of the wire: times in seconds, names as objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

import msgspec

from headgate.core.cluster import Pool, Worker
from headgate.core.commands import Beat
from headgate.core.events import EVENT_TYPES
from headgate.core.explain import Explanation
from headgate.core.job import CLASSES, ONCE, CommandRun, HttpRun, JobKind, Retry, Run
from headgate.core.lease import Lease
from headgate.core.predict import Accuracy, Estimate
from headgate.core.state import Job, State
from headgate.core.tenants import Tenant
from headgate.engine.questions import EventEntry, HistoryEntry, JobInfo, Status
from headgate.wire import http as w

_FIELDS = {str(kind.__struct_config__.tag): kind.__struct_fields__ for kind in EVENT_TYPES}
_NULL = msgspec.Raw(b"null")
_NOT_SHOWN = ("at", "id", "job_id", "spec")


def seconds(at: int | None) -> float | None:
    """Milliseconds as the wire says them."""
    return None if at is None else at / 1000


def job_out(info: JobInfo) -> w.JobOut:
    """A stored job."""
    kind, spec = info.kind, info.spec
    error = info.error
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
        result=_NULL if info.result is None else msgspec.Raw(info.result),
        error=None if error is None else w.ErrorOut(error.code, error.message, error.traceback, error.exit_status),
        **_kind(kind),
    )


def live_job_out(job: Job) -> w.JobOut:
    """A job that has not ended, from memory. They come by the thousand, so what its kind says is put together once."""
    lease = job.lease
    return msgspec.structs.replace(
        _pattern(job.kind.of, job.kind.job_class),
        id=job.id,
        name=job.name,
        state=str(job.state),
        created_at=job.created_at / 1000,
        queued_at=job.queued_at / 1000,
        attempt=job.attempt if lease is None else lease.attempt,
        payload=msgspec.Raw(job.payload),
        attributes=msgspec.Raw(job.attributes),
        seed=job.seed,
        dependencies=job.dependencies,
        not_before=seconds(job.not_before),
        deadline=seconds(job.deadline),
        idempotency_key=job.idempotency_key,
        started_at=None if lease is None else seconds(lease.started_at),
        worker_id=None if lease is None else lease.worker_id,
        lease_id=None if lease is None else lease.id,
    )


def submitted_job_out(job: w.JobOut, *, created: bool, warnings: Sequence[str] = ()) -> w.SubmittedJobOut:
    """A job, as the answer to its submission."""
    said = list(warnings)
    return w.SubmittedJobOut(*msgspec.structs.astuple(job), ids=[job.id], created=[created], warnings=said)


@lru_cache(maxsize=4_096)
def _pattern(kind: JobKind, job_class: int) -> w.JobOut:
    """What all jobs of a kind have in common."""
    return w.JobOut(id="", name="", state="", job_class=CLASSES[job_class], **_kind(kind))


@lru_cache(maxsize=4_096)
def _kind(kind: JobKind) -> dict[str, Any]:
    return {
        "type": kind.type,
        "priority": kind.priority,
        "tenant": kind.tenant,
        "rank": kind.rank,
        "units": kind.units,
        "run": run_out(kind.run),
        "resources": dict(kind.resources),
        "labels": dict(kind.labels),
        "requires": dict(kind.requires),
        "pool": kind.pool,
        "model_ref": kind.model_ref,
        "max_tokens": kind.max_tokens,
        "on_dependency_failure": kind.on_dependency_failure,
        "timeout": seconds(kind.timeout),
        "estimated_duration": seconds(kind.estimated_duration),
        "retry": {} if kind.retry == ONCE else retry_out(kind.retry),
        "checkpointable": kind.checkpointable,
    }


def run_out(run: Run) -> dict[str, Any]:
    """What a worker does, as it was submitted."""
    shown: dict[str, Any] = msgspec.to_builtins(run)
    if isinstance(run, CommandRun):
        shown["env"] = dict(run.env)
    elif isinstance(run, HttpRun):
        shown["headers"] = dict(run.headers)
    return {name: value for name, value in shown.items() if value not in (None, "", {})}


def retry_out(retry: Retry) -> dict[str, Any]:
    """How often, and how long in between."""
    shown = {name: getattr(retry, name) for name in ("attempts", "factor", "jitter")}
    return {**shown, "initial": retry.initial / 1000, "max": retry.max / 1000, "on": list(retry.on)}


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


def beat_out(beat: Beat) -> w.BeatOut:
    """The answer to a heartbeat."""
    return w.BeatOut(beat.lease_id, beat.expires_at / 1000, seconds(beat.let_go_by), beat.stale)


def event_out(entry: HistoryEntry) -> w.EventOut:
    """One event of a job; the journal keeps it as a list."""
    return w.EventOut(entry.number, entry.at / 1000, entry.type, _shown(entry, _NOT_SHOWN))


def any_event_out(entry: EventEntry) -> w.EventOut:
    """One event of whatever; of documents, which may hold secrets, only the name is shown."""
    if entry.job_id is not None:
        return w.EventOut(entry.number, entry.at / 1000, entry.type, _shown(entry, _NOT_SHOWN), entry.job_id)
    plain = {
        name: value for name, value in _shown(entry, ("at", "body")).items() if isinstance(value, str | int | float)
    }
    return w.EventOut(entry.number, entry.at / 1000, entry.type, plain)


def _shown(entry: HistoryEntry | EventEntry, hidden: tuple[str, ...]) -> dict[str, Any]:
    data = dict(zip(_FIELDS.get(entry.type, ()), entry.body[1:], strict=False))
    return {name: _text(value) for name, value in data.items() if name not in hidden and value not in (None, b"")}


def _text(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def worker_out(worker: Worker) -> w.WorkerOut:
    """A worker."""
    spec = worker.spec
    return w.WorkerOut(
        worker.id,
        spec.pool,
        worker.shown_status,
        spec.slots,
        max(0, worker.slots_free),
        worker.running,
        spec.prefetch,
        dict(spec.resources),
        dict(worker.free),
        spec.model_ref,
        list(spec.gpu_ids),
        worker.labels,
        None if spec.types is None else list(spec.types),
        list(worker.leases),
        worker.completed,
        worker.last_seen / 1000,
        spec.pull,
        spec.handlers,
        worker.held,
    )


def pool_out(pool: Pool, workers: list[Worker]) -> w.PoolOut:
    """A pool."""
    report = pool.report
    gpus = [
        w.GpuOut(g.id, g.name, g.vram_total, g.vram_allocated, g.vram_free, g.utilization, g.temperature)
        for g in report.gpus
    ]
    return w.PoolOut(
        report.id,
        pool.status,
        report.node,
        report.busy,
        report.units,
        pool.usable_units(),
        pool.leased_units,
        dict(report.resources),
        dict(pool.used),
        gpus,
        list(report.cached_models),
        [worker.id for worker in workers],
        seconds(pool.last_report),
        list(report.reasons),
        dict(report.signals),
        [
            w.WantedOut(worker.id, worker.spec.model_ref, list(worker.spec.gpu_ids))
            for worker in workers
            if worker.status == "starting"
        ],
    )


def tenant_out(tenant: Tenant) -> w.TenantOut:
    """A tenant with what it holds."""
    spec = tenant.spec
    return w.TenantOut(
        spec.id,
        spec.weight,
        spec.max_units,
        spec.max_leases,
        spec.max_queued,
        dict(spec.max_resources),
        tenant.declared,
        tenant.queued,
        tenant.leases,
        tenant.leased_units,
        dict(tenant.used),
    )


def capacity_out(status: Status) -> w.CapacityOut:
    """The gate."""
    return w.CapacityOut(
        status.busy,
        status.gate,
        status.total_units,
        status.usable_units,
        status.leased_units,
        status.free_units,
        status.signals,
        [*status.reasons, *(note for note in status.degraded if note not in status.reasons)],
    )


def workers_of(state: State, pool_id: str) -> list[Worker]:
    """The workers of a pool."""
    return [worker for worker in state.workers.values() if worker.spec.pool == pool_id]


@cache
def running_version() -> str:
    """The version of the package that runs."""
    return version("headgate")


def explain_out(found: Explanation) -> w.ExplainOut:
    """Why a job waits, and until when."""
    reasons = [{**msgspec.to_builtins(reason), "detail": reason.detail()} for reason in found.reasons]
    expected = None if found.expected is None else _expected(found.expected)
    return w.ExplainOut(found.job_id, str(found.state), reasons, found.position, expected)


def _expected(estimate: Estimate) -> w.ExpectedOut:
    start, low, high = (at / 1000 for at in (estimate.start, estimate.low, estimate.high))
    return w.ExpectedOut(start, low, high, estimate.learned_from)


def _predictions(found: Accuracy | None) -> w.PredictionsOut | None:
    """How expected starts turned out, where somebody forecasts."""
    if found is None:
        return None
    return w.PredictionsOut(found.stated, found.started, found.inside, found.before, found.after, found.share_inside)


def status_out(
    status: Status, policy: dict[str, Any] | None = None, problem: str | None = None, notes: Sequence[str] = ()
) -> w.StatusOut:
    """One look at everything; a problem is what keeps the engine from committing, a note what else is degraded."""
    return w.StatusOut(
        running_version(),
        status.now / 1000,
        status.epoch,
        problem is None,
        capacity_out(status),
        status.states,
        status.ready_by_class,
        status.workers,
        policy or {},
        [*status.degraded, *notes, *([] if problem is None else [problem])],
        _predictions(status.predictions),
    )
