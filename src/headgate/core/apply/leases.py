"""Events of leases."""

from __future__ import annotations

from headgate.core import events as e
from headgate.core.apply.jobs import finish, line_up
from headgate.core.apply.ledgers import end_lease, hold, settle
from headgate.core.fingerprint import digest, said_of
from headgate.core.lease import Lease, number_of
from headgate.core.state import Job, State
from headgate.core.states import COMPLETE, GRANT, START, Trigger


def lease_granted(state: State, event: e.LeaseGranted) -> None:
    job = state.jobs[event.job_id]
    state.move(job, GRANT)
    if job.ready:
        state.ready.drop(job)
    if job.deadline is not None:
        state.waits.drop(job.id)
    job.attempt = event.attempt
    of = job.kind.of
    worker = state.workers[event.worker_id] if event.worker_id is not None else None
    lease = Lease(
        event.lease_id,
        job.id,
        event.worker_id,
        worker.spec.pool if worker is not None else None,
        of.tenant,
        of.units,
        of.resources,
        event.token,
        event.at,
        event.expires_at,
        event.at,
        event.attempt,
        event.expires_at - event.at,
    )
    job.lease = lease
    state.tokens = max(state.tokens, number_of(event.token))
    state.leases[lease.id] = lease
    state.lease_timers.set(lease.id, lease.expires_at)
    if state.preempting:
        state.preempting.pop(job.id, None)
    if job.kind.preemptible:
        state.preemptible += 1
    hold(state, lease, worker, event.at)


def job_started(state: State, event: e.JobStarted) -> None:
    job, lease = state.jobs[event.job_id], state.leases[event.lease_id]
    state.move(job, START)
    lease.started_at = event.at
    timeout = job.kind.of.timeout
    if timeout is not None:
        lease.timeout_at = event.at + timeout
        state.lease_timers.set(lease.id, lease.due)
    if lease.worker_id is not None:
        state.workers[lease.worker_id].running += 1


def lease_renewed(state: State, event: e.LeaseRenewed) -> None:
    # The timer is left where it stands and looks again when it fires: a heartbeat costs two assignments.
    lease = state.leases[event.lease_id]
    lease.expires_at = event.expires_at
    lease.last_heartbeat = event.at
    if lease.worker_id is not None:
        state.workers[lease.worker_id].last_seen = event.at


def job_progressed(state: State, event: e.JobProgressed) -> None:
    lease = state.leases[event.lease_id]
    lease.last_heartbeat = event.at


def job_completed(state: State, event: e.JobCompleted) -> None:
    job, lease = state.jobs[event.job_id], state.leases[event.lease_id]
    if lease.worker_id is not None:
        state.workers[lease.worker_id].completed += 1
    end_lease(state, job, lease, event.at)
    settle(state, job, lease, "complete", event.digest)
    state.move(job, COMPLETE)
    for child in state.graph.children(job.id):
        state.graph.resolve(child, job.id)
    finish(state, job)


def attempt_failed(state: State, event: e.AttemptFailed) -> None:
    job, lease = state.jobs[event.job_id], state.leases[event.lease_id]
    end_lease(state, job, lease, event.at)
    settle(state, job, lease, "fail", digest(said_of(event.failure)))
    _again_or_end(state, job, event.retry_at, Trigger.FAIL, event.at)


def lease_expired(state: State, event: e.LeaseExpired) -> None:
    job, lease = state.jobs[event.job_id], state.leases[event.lease_id]
    end_lease(state, job, lease, event.at)
    settle(state, job, lease, "expire")
    _again_or_end(state, job, event.retry_at, Trigger.EXPIRE, event.at)


def _again_or_end(state: State, job: Job, retry_at: int | None, end: Trigger, at: int) -> None:
    if retry_at is None:
        state.move(job, end)
        finish(state, job)
        return
    state.move(job, Trigger.RETRY)
    job.not_before = retry_at
    job.queued_at = at
    line_up(state, job, at)


def lease_released(state: State, event: e.LeaseReleased) -> None:
    job, lease = state.jobs[event.job_id], state.leases[event.lease_id]
    end_lease(state, job, lease, event.at)
    settle(state, job, lease, event.cause)
    state.move(job, Trigger.RELEASE if event.cause == "release" else Trigger.PREEMPT)
    job.attempt -= 1
    job.queued_at = event.at
    line_up(state, job, event.at)


def preemption_asked(state: State, event: e.PreemptionAsked) -> None:
    lease = state.leases[event.lease_id]
    state.preemptible -= state.may_be_preempted(state.jobs[lease.job_id], lease)
    lease.fence_at = event.fence_at
    lease.for_job = event.for_job
    state.lease_timers.set(lease.id, lease.due)
    state.preempting.setdefault(event.for_job, set()).add(lease.id)


def preemption_lifted(state: State, event: e.PreemptionLifted) -> None:
    lease = state.leases[event.lease_id]
    lease.fence_at = lease.for_job = None
    state.preemptible += state.may_be_preempted(state.jobs[lease.job_id], lease)
    state.lease_timers.set(lease.id, lease.due)
