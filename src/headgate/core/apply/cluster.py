"""Events of workers, pools, tenants, models and documents."""

from __future__ import annotations

from headgate.core import events as e
from headgate.core.apply.ledgers import add
from headgate.core.cluster import Pool, Worker
from headgate.core.state import State
from headgate.core.tenants import TenantSpec


def worker_registered(state: State, event: e.WorkerRegistered) -> None:
    spec = event.spec
    worker = state.workers.get(spec.id)
    if worker is None:
        worker = state.workers[spec.id] = Worker(spec, event.status, event.at)
    else:
        add(state.totals, worker.spec.resources, -1)
        worker.describe(spec)
    worker.status = event.status
    worker.last_seen = event.at
    worker.claims = 0
    add(state.totals, spec.resources, 1)
    worker.free = dict(spec.resources)
    for lease_id in worker.leases:
        add(worker.free, state.leases[lease_id].resources, -1)
    state.pool_named(spec.pool)
    state.open_workers.pop(worker.id, None)
    state.reopen(worker)
    state.room += 1


def worker_changed(state: State, event: e.WorkerChanged) -> None:
    worker = state.workers[event.id]
    worker.status = event.status
    worker.held = event.status == "draining" and (event.hold or worker.held)
    state.reopen(worker)
    state.room += 1


def worker_seen(state: State, event: e.WorkerSeen) -> None:
    state.workers[event.id].last_seen = event.at


def worker_claimed(state: State, event: e.WorkerClaimed) -> None:
    worker = state.workers[event.id]
    worker.claims = event.claims
    worker.last_seen = event.at
    state.reopen(worker)
    state.room += 1


def worker_removed(state: State, event: e.WorkerRemoved) -> None:
    worker = state.workers.pop(event.id)
    state.open_workers.pop(event.id, None)
    add(state.totals, worker.spec.resources, -1)


def worker_wanted(state: State, event: e.WorkerWanted) -> None:
    worker_registered(state, e.WorkerRegistered(event.at, event.spec, "starting"))


def worker_evicted(state: State, event: e.WorkerEvicted) -> None:
    worker = state.workers[event.id]
    worker.status = "draining"
    state.reopen(worker)


def pool_reported(state: State, event: e.PoolReported) -> None:
    report = event.report
    pool = state.pools.get(report.id)
    if pool is None:
        state.pools[report.id] = Pool(report, event.at)
    else:
        pool.report = report
        pool.last_report = event.at
        pool.status = "online"
    for worker_id in report.workers:
        worker = state.workers.get(worker_id)
        if worker is not None and worker.spec.pool == report.id:
            worker.last_seen = event.at
    state.room += 1


def pool_changed(state: State, event: e.PoolChanged) -> None:
    state.pools[event.id].status = event.status
    state.room += 1


def pool_removed(state: State, event: e.PoolRemoved) -> None:
    del state.pools[event.id]


def tenant_set(state: State, event: e.TenantSet) -> None:
    tenant = state.tenant_named(event.spec.id)
    tenant.describe(event.spec, declared=True)
    state.restand(tenant, event.at)
    state.room += 1


def tenant_removed(state: State, event: e.TenantRemoved) -> None:
    tenant = state.tenants[event.id]
    if tenant.live:
        tenant.describe(TenantSpec(event.id), declared=False)
        state.restand(tenant, event.at)
    else:
        del state.tenants[event.id]
        state.ready.restand(event.id, 0.0)
    state.room += 1


def model_set(state: State, event: e.ModelSet) -> None:
    state.models[event.spec.id] = event.spec
    state.room += 1


def model_removed(state: State, event: e.ModelRemoved) -> None:
    del state.models[event.id]


def document_set(state: State, event: e.DocumentSet) -> None:
    if event.body is None:
        state.documents.pop((event.kind, event.id), None)
    else:
        state.documents[event.kind, event.id] = event.body
