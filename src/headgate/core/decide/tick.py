"""Time has passed: everything that happens by itself."""

from __future__ import annotations

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.bucket import Bucket
from headgate.core.cluster import PoolStatus
from headgate.core.decide.jobs import fail_dependents
from headgate.core.decide.leases import attempt_failed, expire
from headgate.core.decide.load import rate
from headgate.core.decide.turn import Turn
from headgate.core.lease import Lease
from headgate.core.state import State
from headgate.core.states import TERMINAL

_IDLE_KINDS = 256
_FADING = 64
"""Standings are reckoned anew this often in a half-life: about one per cent fades in between."""


def tick(turn: Turn, _: c.Tick) -> None:
    """1. forgetting, 2. load, 3. leases, 4. waiting jobs, 5. ageing, 6. fair share, 7. workers and pools.

    Forgetting comes first, so that no job ends and is forgotten in one go.
    """
    _forget(turn)
    _forget_sources(turn)
    rate(turn)
    _end_leases(turn)
    _wake_jobs(turn)
    _age(turn)
    _restand(turn)
    _miss_signs_of_life(turn)
    turn.state.ticked_at = turn.now


def _forget_sources(turn: Turn) -> None:
    """An application that ended must not keep the gate shut for ever; required sources are never forgotten."""
    settings = turn.state.settings
    for source, sample in list(turn.state.load.samples.items()):
        if source not in settings.required_sources and turn.now - sample.at > settings.forget_source:
            turn.emit(e.LoadWithdrawn(turn.now, source))


def resume(turn: Turn, _: c.Resume) -> None:
    """After a pause of the engine itself the holders could not renew: nobody is blamed for that."""
    state = turn.state
    for lease in list(state.leases.values()):
        turn.emit(e.LeaseRenewed(turn.now, lease.id, max(lease.expires_at, turn.now + lease.ttl)))
        latest = turn.now + state.settings.preemption_grace
        if lease.fence_at is not None and lease.for_job is not None and lease.fence_at > latest:
            # asked by a clock that stood ahead of this one
            turn.emit(e.PreemptionAsked(turn.now, lease.id, lease.job_id, lease.for_job, latest))
        state.lease_timers.set(lease.id, lease.due)
    for worker in state.workers.values():
        turn.emit(e.WorkerSeen(turn.now, worker.id))


def _end_leases(turn: Turn) -> None:
    state, now = turn.state, turn.now
    for lease_id in state.lease_timers.due(now):
        lease = state.leases.get(lease_id)
        if lease is None:
            continue
        if lease.timeout_at is not None and lease.timeout_at <= now:
            job = state.jobs[lease.job_id]
            failure = e.Failure("timeout", f"ran longer than {(job.kind.of.timeout or 0) / 1000:g} s")
            attempt_failed(turn, job, lease, failure)
        elif lease.fence_at is not None and lease.fence_at <= now:
            _fence(turn, lease)
        elif lease.expires_at <= now:
            expire(turn, lease)
        else:  # renewed since the timer was set
            state.lease_timers.set(lease_id, lease.due)


def _fence(turn: Turn, lease: Lease) -> None:
    """The grace is over: the holder goes, unless the job it was to make room for has ended or found another place."""
    if lease.id in turn.state.preempting.get(lease.for_job or "", ()):
        turn.emit(e.LeaseReleased(turn.now, lease.job_id, lease.id, "preempt"))
    else:
        turn.emit(e.PreemptionLifted(turn.now, lease.id, lease.job_id))


def _wake_jobs(turn: Turn) -> None:
    state, now = turn.state, turn.now
    for job_id in state.waits.due(now):
        job = state.jobs[job_id]
        if job.state in TERMINAL:  # it failed a moment ago with a dependency that missed its own deadline
            continue
        if job.deadline is not None and job.deadline <= now:
            children = list(state.graph.children(job_id))
            turn.emit(e.DeadlineMissed(now, job_id))
            fail_dependents(turn, job_id, children)
        elif not job.ready:
            turn.emit(e.JobDue(now, job_id))


def _age(turn: Turn) -> None:
    """Lift jobs that have waited too long by one class. Only heads are looked at: they have waited longest."""
    limit = turn.state.settings.ageing
    if not limit:
        return
    for bucket in list(turn.state.ready.buckets()):
        if bucket.job_class > 0:
            _age_bucket(turn, bucket, limit)


def _age_bucket(turn: Turn, bucket: Bucket, limit: int) -> None:
    while (job := bucket.head()) is not None:
        steps = job.kind.of.job_class - bucket.job_class + 1
        if turn.now - job.queued_at < limit * steps:
            return
        turn.emit(e.JobAged(turn.now, job.id, bucket.job_class - 1))


def _restand(turn: Turn) -> None:
    """Past use fades with time alone: without this, a tenant that nothing happens to would never be forgiven."""
    state, now = turn.state, turn.now
    if not state.ready.shared or 0 <= now - state.restood_at < state.settings.fair_half_life // _FADING:
        return
    state.restood_at = now
    for tenant_id in sorted(state.ready.waiting_tenants()):
        state.restand(state.tenants[tenant_id], now)


def _miss_signs_of_life(turn: Turn) -> None:
    state, now, settings = turn.state, turn.now, turn.state.settings
    for worker in list(state.workers.values()):
        if now - worker.last_seen <= settings.worker_silence:
            continue
        if worker.status == "ready":
            turn.emit(e.WorkerChanged(now, worker.id, "offline", "it fell silent"))
        elif worker.status == "starting" and not worker.leases:  # it was asked for and never came
            turn.emit(e.WorkerRemoved(now, worker.id))
    for pool_id, pool in list(state.pools.items()):
        status = _pool_status(state, now, pool.last_report)
        if status != pool.status:
            turn.emit(e.PoolChanged(now, pool_id, status))


def _pool_status(state: State, now: int, last_report: int | None) -> PoolStatus:
    silent = 0 if last_report is None else now - last_report
    if silent > state.settings.pool_offline:
        return "offline"
    return "degraded" if silent > state.settings.pool_degraded else "online"


def _forget(turn: Turn) -> None:
    state = turn.state
    surplus = len(state.finished) - state.settings.retain_finished
    if surplus > 0:
        ids = tuple(state.finished[index] for index in range(surplus))
        turn.emit(e.JobsForgotten(turn.now, ids))
    idle = [key for key, kind in state.kinds.items() if kind.jobs == 0]
    if len(idle) > _IDLE_KINDS:
        for key in idle:
            del state.kinds[key]
        state.ready.forget_idle({id(kind.bucket) for kind in state.kinds.values()})
