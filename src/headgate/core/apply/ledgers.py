"""The ledgers: what leases hold of units, slots and resources, on every book at once."""

from __future__ import annotations

from headgate.core.cluster import Worker
from headgate.core.lease import Lease
from headgate.core.quantities import Amount, Resources
from headgate.core.state import Job, Settled, State


def hold(state: State, lease: Lease, worker: Worker | None, at: int) -> None:
    """Enter what the lease holds into every ledger."""
    state.leased_units += lease.units
    tenant = state.tenants[lease.tenant]
    tenant.leases += 1
    tenant.leased_units += lease.units
    if lease.resources:
        add(tenant.used, lease.resources, 1)
    if worker is not None:
        worker.leases[lease.id] = None
        worker.last_used = at
        if worker.claims:
            worker.claims -= 1
        if lease.resources:
            add(worker.free, lease.resources, -1)
        pool = state.pool_named(lease.pool_id or "")  # where it was granted: the worker may have moved since
        pool.leased_units += lease.units
        pool.last_start = at
        if lease.resources:
            add(pool.used, lease.resources, 1)
        state.reopen(worker)
    if state.ready.shared:
        state.restand(tenant, at)


def add(ledger: dict[str, Amount], amounts: Resources, sign: int) -> None:
    for name, value in amounts:
        ledger[name] = ledger.get(name, 0) + sign * value


def end_lease(state: State, job: Job, lease: Lease, at: int) -> None:
    """Take what the lease held out of every ledger and forget it."""
    del state.leases[lease.id]
    if job.kind.preemptible:
        state.preemptible -= state.may_be_preempted(job, lease)
    state.lease_timers.drop(lease.id)
    job.lease = None
    state.room += 1
    state.leased_units -= lease.units
    tenant = state.tenants[lease.tenant]
    tenant.leases -= 1
    tenant.leased_units -= lease.units
    if lease.resources:
        add(tenant.used, lease.resources, -1)
    share = state.dominant_share(lease.units, lease.resources)
    # A clock that lags behind the grant must not pay the tenant for having run.
    tenant.charge(share, max(0, at - lease.granted_at), at, state.settings.fair_half_life)
    if lease.worker_id is not None:
        _leave_worker(state, lease, state.workers[lease.worker_id])
    if lease.fence_at is not None:
        _forget_victim(state, lease.id)
    if state.ready.shared:
        state.restand(tenant, at)


def _leave_worker(state: State, lease: Lease, worker: Worker) -> None:
    pool = state.pools[lease.pool_id or ""]
    pool.leased_units -= lease.units
    del worker.leases[lease.id]
    if lease.started_at is not None:
        worker.running -= 1
    if lease.resources:
        add(pool.used, lease.resources, -1)
        add(worker.free, lease.resources, 1)
    state.reopen(worker)


def _forget_victim(state: State, lease_id: str) -> None:
    for job_id, victims in list(state.preempting.items()):
        victims.discard(lease_id)
        if not victims:
            del state.preempting[job_id]


def settle(state: State, job: Job, lease: Lease, verb: str, digest: bytes = b"") -> None:
    """Remember how the lease was settled, in place of whatever was remembered before."""
    if job.settled is not None:
        state.settled.pop(job.settled.lease_id, None)
    job.settled = Settled(lease.id, lease.token, verb, digest, lease.worker_id, lease.started_at)
    state.settled[lease.id] = job.id
