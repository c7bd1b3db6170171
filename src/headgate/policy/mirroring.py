"""From the core's events to the deltas that a policy's mirror lives on.

Events only say what to look at again. What is told is read from the state when the next question is asked, so many
changes to one job or worker travel as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headgate.core import events as e
from headgate.core.cluster import Pool
from headgate.core.settings import Settings
from headgate.core.state import Job, State
from headgate.core.tenants import Tenant
from headgate.policy import deltas as d
from headgate.policy.fleet_news import FleetNews

_json = msgspec.json.Decoder().decode
_OF_JOBS = (e.JobSubmitted, e.JobUnblocked, e.JobDue, e.JobAged, e.JobPatched, e.JobCancelled, e.DeadlineMissed)
_OF_LEASES = (
    *(e.LeaseGranted, e.JobStarted, e.JobCompleted, e.AttemptFailed),
    *(e.LeaseExpired, e.LeaseReleased, e.PreemptionAsked, e.PreemptionLifted),
)
_OF_WORKERS = (e.WorkerChanged, e.WorkerClaimed, e.WorkerRemoved, e.WorkerEvicted)
_MINUTE = 60_000


class Mirroring:
    """Keeps track of what the mirror has not been told yet."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._fleet = FleetNews()
        self._tenants_told: dict[str, d.TenantSet] = {}
        self._metrics_told: dict[str, float] = {}
        self._forget()
        self._completions: list[int] = []
        self._waited = 0.0

    def _forget(self) -> None:
        self._jobs: dict[str, bool] = {}
        self._pools: dict[str, None] = {}
        self._tenants: dict[str, None] = {}
        self._models: dict[str, None] = {}

    # -- what to look at again ----------------------------------------------------------------------------------

    def observe(self, events: list[e.Event], state: State) -> None:
        """Note what events touched."""
        for event in events:
            kind = type(event)
            if kind in _OF_JOBS:
                changed = kind is e.JobAged or kind is e.JobPatched
                self._touch_job(event.id, state, changed=changed)  # type: ignore[attr-defined]  # all have an id
            elif kind in _OF_LEASES:
                self._touch_lease(event, state)
            elif kind in _OF_WORKERS:
                self._fleet.touch(event.id)  # type: ignore[attr-defined]
            else:
                self._touch_other(event)

    def _touch_job(self, job_id: str, state: State, *, changed: bool = False) -> None:
        self._jobs[job_id] = changed or self._jobs.get(job_id, False)
        self._fleet.touch_running(job_id)  # a cancelled job leaves its worker too
        job = state.jobs.get(job_id)
        if job is not None:
            self._tenants[job.kind.of.tenant] = None

    def _touch_lease(self, event: Any, state: State) -> None:
        self._touch_job(event.job_id, state, changed=True)  # it may be back in the queue already, another attempt on
        job = state.jobs.get(event.job_id)
        lease = job.lease if job is not None else None
        settled = job.settled if job is not None else None
        worker_id = lease.worker_id if lease is not None else settled.worker_id if settled is not None else None
        self._fleet.touch_job(event.job_id, worker_id)
        if type(event) is e.JobCompleted:
            self._completions.append(event.at)
        elif type(event) is e.LeaseGranted and job is not None:
            self._waited += 0.05 * (event.at - job.queued_at - self._waited)

    def _touch_other(self, event: e.Event) -> None:
        match event:
            case e.WorkerRegistered() | e.WorkerWanted():
                self._fleet.touch(event.spec.id)
                self._pools[event.spec.pool] = None
            case e.PoolReported():
                self._pools[event.report.id] = None
            case e.PoolChanged() | e.PoolRemoved():
                self._pools[event.id] = None
            case e.TenantSet():
                self._tenants[event.spec.id] = None
            case e.TenantRemoved():
                self._tenants[event.id] = None
            case e.ModelSet():
                self._models[event.spec.id] = None
            case e.ModelRemoved():
                self._models[event.id] = None

    # -- what to tell -------------------------------------------------------------------------------------------

    def everything(self, state: State, now: int) -> list[d.Delta]:
        """The whole state, for mirrors that from now on are told what changes."""
        self._forget()
        self._told = {job.id for job in state.ready}
        self._fleet = FleetNews()
        self._metrics_told = self._metrics(state, now)
        self._tenants_told = _tenants(state, now)
        return _whole(state, self._tenants_told, self._fleet, self._metrics_told)

    def snapshot(self, state: State, now: int) -> list[d.Delta]:
        """The whole state for one mirror more; what the others have been told is not touched."""
        return _whole(state, _tenants(state, now), FleetNews(), self._metrics(state, now))

    def news(self, state: State, now: int) -> list[d.Delta]:
        """What has changed since the mirror was last told."""
        told = [
            *self._model_news(state),
            *(self._tenant_news(state, now)),
            *self._pool_news(state),
            *self._fleet.news(state),
            *self._job_news(state),
            *self._metric_news(state, now),
        ]
        self._forget()
        return told

    def _job_news(self, state: State) -> Iterator[d.Delta]:
        for job_id, changed in self._jobs.items():
            job = state.jobs.get(job_id)
            ready, known = job is not None and job.ready, job_id in self._told
            if known and (changed or not ready):
                self._told.discard(job_id)
                yield d.JobRemoved(job_id)
            if job is not None and ready and (changed or not known):
                self._told.add(job_id)
                yield _job(state, job)

    def _pool_news(self, state: State) -> Iterator[d.Delta]:
        for pool_id in self._pools:
            pool = state.pools.get(pool_id)
            yield d.PoolRemoved(pool_id) if pool is None else _pool(pool_id, pool)

    def _tenant_news(self, state: State, now: int) -> Iterator[d.Delta]:
        for tenant_id in self._tenants:
            tenant = state.tenants.get(tenant_id)
            if tenant is None:
                self._tenants_told.pop(tenant_id, None)
                yield d.TenantRemoved(tenant_id)
            elif (shown := _tenant(state, tenant, now)) != self._tenants_told.get(tenant_id):
                self._tenants_told[tenant_id] = shown
                yield shown

    def _model_news(self, state: State) -> Iterator[d.Delta]:
        for model_id in self._models:
            model = state.models.get(model_id)
            yield d.ModelRemoved(model_id) if model is None else _model(model)

    def _metric_news(self, state: State, now: int) -> Iterator[d.Delta]:
        values, told = self._metrics(state, now), self._metrics_told
        self._metrics_told = values
        changed = {name: value for name, value in values.items() if value != told.get(name)}
        if changed:
            yield d.MetricsSet(changed)

    def _metrics(self, state: State, now: int) -> dict[str, float]:
        while self._completions and self._completions[0] <= now - _MINUTE:
            self._completions.pop(0)
        usable = state.usable_units(now)
        return {
            "busy_rating": state.load.rating,
            "usable_units": usable,
            "leased_units": state.leased_units,
            "free_units": max(0, usable - state.leased_units),
            "avg_wait_ms": round(self._waited),
            "jobs_completed_last_minute": len(self._completions),
        }


def _whole(state: State, tenants: dict[str, d.TenantSet], fleet: FleetNews, metrics: dict[str, float]) -> list[d.Delta]:
    return [
        d.ConfigSet(_config(state.settings)),
        *(_model(model) for model in state.models.values()),
        *tenants.values(),
        *(_pool(pool_id, pool) for pool_id, pool in state.pools.items()),
        *fleet.everything(state),
        *(_job(state, job) for job in sorted(state.ready, key=lambda job: job.seq)),
        d.MetricsSet(metrics),
    ]


def _tenants(state: State, now: int) -> dict[str, d.TenantSet]:
    return {name: _tenant(state, tenant, now) for name, tenant in state.tenants.items()}


def _config(settings: Settings) -> dict[str, Any]:
    return {
        "preemption": settings.preemption,
        "preempting_classes": [d.CLASSES[job_class] for job_class in settings.preempting_classes],
        "preemptible_classes": [d.CLASSES[job_class] for job_class in settings.preemptible_classes],
        "stagger_ms": settings.stagger,
        "lease_ttl_ms": settings.lease_ttl,
        "total_units": settings.total_units,
    }


def _job(state: State, job: Job) -> d.JobAdded:
    kind = job.kind
    of = kind.of
    resources = dict(of.resources)
    vram = resources.get("vram")
    if vram is None and of.model_ref is not None:
        model = state.models.get(of.model_ref)
        vram = model.vram if model is not None and model.vram else None
    return d.JobAdded(
        id=job.id,
        class_index=kind.job_class,
        rank=of.rank,
        seq=job.seq,
        name=job.name,
        type=of.type,
        priority=of.priority,
        tenant=of.tenant,
        units=of.units,
        resources=resources,
        model_ref=of.model_ref,
        seed=job.seed,
        max_tokens=of.max_tokens,
        labels=dict(of.labels),
        attributes=_json(job.attributes) if job.attributes != b"{}" else {},
        created_at=job.created_at,
        queued_at=job.queued_at,
        attempt=job.attempt,
        estimated_vram=vram,
        estimated_duration_ms=of.estimated_duration,
        pool=of.pool,
        requires=dict(of.requires),
        external=kind.bucket.shape.external,
        handler=kind.bucket.shape.handler,
    )


def _pool(pool_id: str, pool: Pool) -> d.PoolSet:
    report = pool.report
    gpus = [d.Gpu(g.id, g.name, g.vram_total, g.vram_allocated, g.vram_free, g.utilization) for g in report.gpus]
    return d.PoolSet(pool_id, pool.status, pool.last_report or 0, gpus, list(report.cached_models))


def _tenant(state: State, tenant: Tenant, now: int) -> d.TenantSet:
    spec = tenant.spec
    quotas: dict[str, float] = dict(spec.max_resources)
    if spec.max_units is not None:
        quotas["units"] = spec.max_units
    if spec.max_leases is not None:
        quotas["jobs"] = spec.max_leases
    present = state.dominant_share(tenant.leased_units, tenant.used.items())
    share = tenant.standing(present, now, state.settings.fair_half_life)
    usage = {**tenant.used, "units": tenant.leased_units, "jobs": tenant.leases}
    return d.TenantSet(spec.id, spec.weight, share, quotas, usage)


def _model(model: Any) -> d.ModelSet:
    return d.ModelSet(model.id, model.vram or None, None, list(model.aliases))
