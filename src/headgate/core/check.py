"""Checking: does a proposed action hold? Safety is decided here and nowhere else."""

from __future__ import annotations

from headgate.core.actions import (
    AnyReason,
    BadAction,
    BusyGate,
    Dispatch,
    Evict,
    NoCapacity,
    NotQueued,
    QuotaReached,
    Stagger,
    StartWorker,
    WorkerUnfit,
)
from headgate.core.bucket import Shape
from headgate.core.cluster import Pool, Worker
from headgate.core.quantities import Amount, plain
from headgate.core.state import State
from headgate.core.tenants import Tenant


def check_dispatch(state: State, action: Dispatch, now: int) -> AnyReason | None:
    """Why the job may not have a lease on that worker now; none if it may."""
    job = state.jobs.get(action.job_id)
    if job is None:
        return BadAction(f"there is no job {action.job_id!r}")
    if not job.ready:
        return NotQueued(str(job.state) if not job.not_before else f"{job.state}, not before {job.not_before}")
    if job.deadline is not None and job.deadline <= now:
        return BadAction("its deadline has passed")
    shape = job.kind.bucket.shape
    if action.worker_id is None:
        if not shape.external:
            return BadAction("a dispatch names a worker, unless the job is external")
        return no_units(state, shape.units, now) or over_quota(state.tenants[job.kind.of.tenant], shape)
    worker = state.workers.get(action.worker_id)
    if worker is None:
        return BadAction(f"there is no worker {action.worker_id!r}")
    if shape.external:
        return BadAction("an external job needs no worker")
    return (
        no_units(state, shape.units, now)
        or over_quota(state.tenants[job.kind.of.tenant], shape)
        or unfit(shape, worker)
        or pool_closed(state, shape, worker.spec.pool, now)
    )


def no_units(state: State, units: int, now: int) -> AnyReason | None:
    """The gate: units usable at the present load, less those held."""
    free = state.load.usable_at(now) - state.leased_units
    if units <= free and (units or not gate_shut(state, now)):
        return None
    stale = state.load.stale(now, state.settings)
    if stale or state.load.busy >= 10:
        because = tuple(f"no fresh sample from {source}" for source in stale) or state.load.reasons
        return BusyGate(10.0 if stale else state.load.rating, because)
    return NoCapacity(units, max(0, free), units - max(0, free))


def gate_shut(state: State, now: int) -> bool:
    """Whether nothing at all may start, not even a job that takes no units."""
    return state.load.busy >= 10 or bool(state.load.stale(now, state.settings))


def over_quota(tenant: Tenant, shape: Shape) -> AnyReason | None:
    """Hard quotas of the tenant."""
    if not tenant.limited:
        return None
    spec = tenant.spec
    if spec.max_leases is not None and tenant.leases >= spec.max_leases:
        return QuotaReached(spec.id, "leases", spec.max_leases, tenant.leases, 1)
    if spec.max_units is not None and tenant.leased_units + shape.units > spec.max_units:
        return QuotaReached(spec.id, "units", spec.max_units, tenant.leased_units, shape.units)
    for name, needed in shape.resources if tenant.limits else ():
        limit, used = tenant.limits.get(name), tenant.used.get(name, 0)
        if limit is not None and used + needed > limit:
            return QuotaReached(spec.id, name, limit, used, needed)
    return None


def unfit(shape: Shape, worker: Worker) -> WorkerUnfit | None:
    """The first requirement of the shape that the worker does not meet now."""
    if worker.status != "ready":
        return WorkerUnfit(worker.id, "status", "ready", worker.status)
    if len(worker.leases) >= worker.limit:
        return WorkerUnfit(worker.id, "slots", "1 free", "0 free")
    if worker.spec.pull and worker.claims <= 0:
        return WorkerUnfit(worker.id, "claim", "an open claim", "none")
    lasting = never_fits(shape, worker)
    return lasting if lasting or not shape.resources else lacks(shape, worker.id, worker.free)


def never_fits(shape: Shape, worker: Worker) -> WorkerUnfit | None:
    """Requirements that waiting does not help with."""
    if shape.handler and not worker.spec.handlers:
        return WorkerUnfit(worker.id, "handler", shape.type, "")
    if worker.types is not None and shape.type not in worker.types:
        return WorkerUnfit(worker.id, "type", shape.type, ", ".join(sorted(worker.types)))
    if shape.pool is not None and shape.pool != worker.spec.pool:
        return WorkerUnfit(worker.id, "pool", shape.pool, worker.spec.pool)
    for name, value in shape.requires:
        if worker.labels.get(name) != value:
            return WorkerUnfit(worker.id, "label", f"{name}={value}", f"{name}={worker.labels.get(name, '')}")
    return None


def serves(shape: Shape, worker: Worker) -> bool:
    """A worker that has a model loaded is left to jobs for that model: custom of the native ordering, no rule."""
    return worker.spec.model_ref is None or worker.spec.model_ref == shape.model_ref


def lacks(shape: Shape, worker_id: str, free: dict[str, Amount]) -> WorkerUnfit | None:
    """The first named resource of which there is too little."""
    for name, needed in shape.resources:
        have = free.get(name, 0)
        if have < needed:
            return WorkerUnfit(worker_id, "resource", f"{plain(needed)} {name}", f"{plain(have)} {name}")
    return None


def pool_closed(state: State, shape: Shape, pool_id: str, now: int) -> AnyReason | None:
    """What the worker's machine as a whole has to say: status, its own load, stagger."""
    pool = state.pools[pool_id]
    if pool.status == "offline":
        return BadAction(f"pool {pool_id} is offline")
    stagger = state.settings.stagger
    if stagger and pool.last_start is not None and now - pool.last_start < stagger:
        return Stagger(pool_id, stagger - (now - pool.last_start))
    report = pool.report
    if report.busy is not None and (pool.shut or pool.silent(now, state.settings.pool_degraded)):
        return BusyGate(10.0, _pool_words(state, pool, now))
    if pool.last_report is None and pool_id in state.settings.required_pools:
        return BusyGate(10.0, (f"pool {pool_id} has not reported yet",))
    usable = pool.usable_units() if report.units is not None else None
    if usable is not None and pool.leased_units + shape.units > usable:
        free = max(0, usable - pool.leased_units)
        return NoCapacity(shape.units, free, shape.units - free, pool_id)
    for name, limit in report.resources:
        needed = next((value for wanted, value in shape.resources if wanted == name), 0)
        if needed and pool.used.get(name, 0) + needed > limit:
            return WorkerUnfit(
                pool_id, "resource", f"{plain(needed)} {name}", f"{plain(limit - pool.used.get(name, 0))} {name}"
            )
    return None


def _pool_words(state: State, pool: Pool, now: int) -> tuple[str, ...]:
    report = pool.report
    if pool.silent(now, state.settings.pool_degraded):
        return (f"no fresh report from pool {report.id}",)
    highest = () if report.bottleneck is None else (report.bottleneck,)
    return (f"pool {report.id} is busy", *(report.reasons or highest))


def check_evict(state: State, action: Evict) -> AnyReason | None:
    """Only an idle worker that is up may be evicted."""
    worker = state.workers.get(action.worker_id)
    if worker is None:
        return BadAction(f"there is no worker {action.worker_id!r}")
    if worker.status != "ready":
        return WorkerUnfit(worker.id, "status", "ready", worker.status)
    if worker.leases:
        return WorkerUnfit(worker.id, "needed", "no leases", f"{len(worker.leases)} leases")
    return None


def check_start_worker(state: State, action: StartWorker) -> AnyReason | None:
    """The pool must be there, alive, and have the GPU memory that the catalog says the model takes."""
    pool = state.pools.get(action.pool_id)
    if pool is None:
        return BadAction(f"there is no pool {action.pool_id!r}")
    if pool.status != "online":
        return BadAction(f"pool {action.pool_id} is {pool.status}")
    if wanted_worker_id(action) in state.workers:
        return BadAction(f"worker {wanted_worker_id(action)} exists already")
    model = next((m for m in state.models.values() if action.model_ref in (m.id, *m.aliases)), None)
    gpus = [gpu for gpu in pool.report.gpus if action.gpu_id is None or gpu.id == action.gpu_id]
    if action.gpu_id is not None and not gpus:
        return BadAction(f"pool {action.pool_id} has no GPU {action.gpu_id!r}")
    if model is not None and gpus and all(gpu.vram_free < model.vram for gpu in gpus):
        best = max(gpu.vram_free for gpu in gpus)
        return WorkerUnfit(action.pool_id, "resource", f"{model.vram} vram", f"{best} vram")
    return None


def wanted_worker_id(action: StartWorker) -> str:
    """The id that a worker started for a model gets."""
    return f"{action.pool_id}/{action.model_ref}" + (f"@{action.gpu_id}" if action.gpu_id is not None else "")
