"""Building a state from what a store kept: the one other way, beside events, that jobs and leases come into being."""

from __future__ import annotations

import msgspec

from headgate.core.apply.jobs import line_up, watch
from headgate.core.apply.ledgers import hold
from headgate.core.job import JobKind, JobSpec
from headgate.core.lease import Lease
from headgate.core.state import Job, Settled, State
from headgate.core.states import TERMINAL, JobState


class Standing(msgspec.Struct, frozen=True, gc=False):
    """What had changed about a job since it was submitted."""

    kind: JobKind
    job_class: int
    attempt: int
    not_before: int | None
    queued_at: int
    settled: Settled | None = None


def restore_live(
    state: State,
    job_id: str,
    seq: int,
    created_at: int,
    spec: JobSpec,
    standing: Standing | None,
    lease: Lease | None,
    now: int,
) -> Job:
    """Put back a job that has not ended. Jobs come in order of submission, after the workers."""
    of = spec.kind if standing is None else standing.kind
    job_class = of.job_class if standing is None else standing.job_class
    pending: list[str] = []
    job = state.enter(job_id, seq, created_at, spec, state.kind_for(of, job_class), JobState.QUEUED)
    state.tenant_named(of.tenant).live += 1
    if spec.dependencies:
        pending = [d for d in spec.dependencies if (p := state.jobs.get(d)) is not None and p.state not in TERMINAL]
        depth = 1 + max((state.graph.depth(dependency) for dependency in spec.dependencies), default=0)
        state.graph.add(job_id, pending, depth, spec.dependencies)
    if standing is not None:
        job.attempt, job.not_before, job.queued_at = standing.attempt, standing.not_before, standing.queued_at
        _remember(state, job, standing.settled)
    if lease is not None:
        _put_lease(state, job, lease, now)
    elif pending:
        job.state = JobState.BLOCKED
        watch(state, job)
    else:
        line_up(state, job, now)
    state.counts[job.state] += 1
    return job


def restore_ended(
    state: State, job_id: str, seq: int, created_at: int, spec: JobSpec, ended: JobState, settled: Settled | None
) -> None:
    """Put back a job that has ended, so that repeats of its last word and of its key are still recognised."""
    job = state.enter(job_id, seq, created_at, spec, state.kind_for(spec.kind, spec.kind.job_class), ended)
    state.tenant_named(spec.kind.tenant)
    job.payload = b""
    state.counts[ended] += 1
    state.finished.append(job_id)
    _remember(state, job, settled)


def _remember(state: State, job: Job, settled: Settled | None) -> None:
    job.settled = settled
    if settled is not None:
        state.settled[settled.lease_id] = job.id


def _put_lease(state: State, job: Job, lease: Lease, now: int) -> None:
    job.state = JobState.LEASED if lease.started_at is None else JobState.RUNNING
    job.lease = lease
    job.attempt = lease.attempt
    state.leases[lease.id] = lease
    state.preemptible += state.may_be_preempted(job, lease)
    timeout = job.kind.of.timeout
    if lease.started_at is not None and timeout is not None:
        # Nobody knows how far the clock has moved meanwhile, so the limit begins anew: late at worst, never early.
        lease.timeout_at = now + timeout
    if lease.for_job is not None:
        state.preempting.setdefault(lease.for_job, set()).add(lease.id)
    state.lease_timers.set(lease.id, lease.due)
    worker = state.workers[lease.worker_id] if lease.worker_id is not None else None
    used_at = worker.last_used if worker is not None else 0
    hold(state, lease, worker, now)
    if worker is not None:
        worker.last_used = max(used_at, lease.granted_at)
        worker.running += lease.started_at is not None
