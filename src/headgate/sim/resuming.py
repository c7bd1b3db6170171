"""A world that begins in the middle of things: what runs and waits at its first moment, put back as after a restart."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.core.cluster import WorkerSpec
from headgate.core.lease import Lease
from headgate.core.restore import Standing, restore_live
from headgate.core.state import State
from headgate.core.tenants import TenantSpec
from headgate.sim.cluster import FOREVER
from headgate.sim.workloads.model import SimJob


class Begun(msgspec.Struct, frozen=True):
    """A job that is there already."""

    job: SimJob
    seq: int
    standing: Standing
    lease: Lease | None = None
    left: int = 0
    """What a job that runs still has before it."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id


class Used(msgspec.Struct, frozen=True):
    """What a tenant has had: fair share is reckoned from it."""

    spec: TenantSpec
    declared: bool
    usage: float
    usage_at: int


class Begin(msgspec.Struct, frozen=True):
    """The first moment of a world. Jobs stand in order of submission."""

    at: int
    epoch: int
    seq: int
    tokens: int
    jobs: tuple[Begun, ...]
    tenants: tuple[Used, ...] = ()
    open_workers: tuple[str, ...] = ()
    """The order in which workers with room are tried."""
    draining: tuple[str, ...] = ()
    """Workers that take nothing new."""
    starting: tuple[tuple[int, WorkerSpec], ...] = ()
    """Workers on their way, and when they will be ready."""


def resume(state: State, begin: Begin, now: int) -> Iterator[tuple[Begun, Lease | None]]:
    """Put everything back into a state that has its workers; yields each job with its lease.

    A lease whose worker is not part of this world is lost, and its job waits again.
    """
    state.seq, state.tokens = begin.seq, begin.tokens
    for used in begin.tenants:
        tenant = state.tenant_named(used.spec.id)
        tenant.describe(used.spec, declared=used.declared)
        tenant.usage, tenant.usage_at = used.usage, used.usage_at
    for begun in begin.jobs:
        lease = _lease(state, begun)
        job = begun.job
        restore_live(state, job.id, begun.seq, job.at, job.spec, begun.standing, lease, now)
        if lease is not None:
            timeout = job.spec.kind.timeout
            if lease.started_at is not None and timeout is not None:
                lease.timeout_at = max(now + begun.left, lease.started_at + timeout)
                state.lease_timers.set(lease.id, lease.due)
        yield begun, lease
    known = [worker_id for worker_id in begin.open_workers if worker_id in state.open_workers]
    state.open_workers = {name: state.workers[name] for name in (*known, *state.open_workers)}
    for used in begin.tenants:
        state.restand(state.tenants[used.spec.id], now)


def _lease(state: State, begun: Begun) -> Lease | None:
    lease = begun.lease
    if lease is None or (lease.worker_id is not None and lease.worker_id not in state.workers):
        return None
    # A copy: several worlds begin at the same moment, and each lets its leases go their own way.
    return msgspec.structs.replace(lease, ttl=FOREVER, expires_at=FOREVER, timeout_at=None)
