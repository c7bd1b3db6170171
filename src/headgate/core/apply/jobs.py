"""Events of jobs."""

from __future__ import annotations

from collections import deque

from headgate.core import events as e
from headgate.core.apply.ledgers import end_lease, settle
from headgate.core.errors import InvalidInput
from headgate.core.job import JobKind
from headgate.core.state import Job, Kind, State, plain_job
from headgate.core.states import QUEUED, Trigger


def job_submitted(state: State, event: e.JobSubmitted) -> None:
    spec = event.spec
    if spec is None:
        raise InvalidInput("an entry of the journal is applied together with its job's row", field="spec")
    of = spec.kind
    job = state.enter(event.id, event.seq, event.at, spec, state.kind_for(of, of.job_class), event.state)
    state.seq = event.seq
    state.counts[event.state] += 1
    state.tenant_named(of.tenant).live += 1
    if event.waits_for or event.depth:
        state.graph.add(event.id, event.waits_for, event.depth, spec.dependencies)
    if event.state is QUEUED and spec.not_before is spec.deadline is None:
        state.ready.push(job)
    elif event.state is QUEUED:
        line_up(state, job, event.at)
    else:
        watch(state, job)


def plain_jobs_submitted(state: State, events: list[e.JobSubmitted]) -> None:
    """What `job_submitted` does, for many jobs that wait for nothing but room; what they share is done once."""
    jobs: list[Job] = []
    of: JobKind | None = None
    kind: Kind | None = None
    for event in events:
        spec = event.spec
        if spec is None:
            raise InvalidInput("an entry of the journal is applied together with its job's row", field="spec")
        if kind is None or spec.kind is not of:
            of = spec.kind
            kind = state.kind_for(of, of.job_class)
        jobs.append(plain_job(event.id, kind, spec.name, spec.payload, spec.seed, spec.attributes, event.seq, event.at))
    state.enter_plain(jobs)
    state.seq = events[-1].seq


def line_up(state: State, job: Job, at: int) -> None:
    """A queued job is ready, unless its time has not come."""
    if job.not_before is None or job.not_before <= at:
        state.ready.push(job)
    watch(state, job)


def watch(state: State, job: Job) -> None:
    """Set the timer for whatever comes first: the job's time, or its deadline."""
    begin = job.not_before if job.state is QUEUED and not job.ready else None
    end = job.deadline
    if begin is None and end is None:
        state.waits.drop(job.id)
    elif begin is None or (end is not None and end < begin):
        state.waits.set(job.id, end)  # type: ignore[arg-type]  # one of the two is there
    else:
        state.waits.set(job.id, begin)


def job_unblocked(state: State, event: e.JobUnblocked) -> None:
    job = state.jobs[event.id]
    state.move(job, Trigger.UNBLOCK)
    job.queued_at = event.at
    line_up(state, job, event.at)


def job_due(state: State, event: e.JobDue) -> None:
    job = state.jobs[event.id]
    state.ready.push(job)
    watch(state, job)


def job_aged(state: State, event: e.JobAged) -> None:
    _rekind(state, state.jobs[event.id], state.jobs[event.id].kind.of, event.job_class)


def job_patched(state: State, event: e.JobPatched) -> None:
    job = _rekind(state, state.jobs[event.id], event.kind, event.kind.job_class)
    job.not_before = event.not_before
    if job.state is QUEUED:
        due = event.not_before is None or event.not_before <= event.at
        if due and not job.ready:
            state.ready.push(job)
        elif not due and job.ready:
            state.ready.drop(job)
    watch(state, job)


def _rekind(state: State, job: Job, of: JobKind, job_class: int) -> Job:
    """Give a job another kind. It becomes a new record: the entry of the old one stays behind in its bucket."""
    was_ready = job.ready
    if was_ready:
        state.ready.drop(job)
    job.kind.jobs -= 1
    moved = Job(*(getattr(job, field) for field in job.__struct_fields__))
    moved.kind = state.kind_for(of, job_class)
    moved.kind.jobs += 1
    moved.parked = False
    state.jobs[job.id] = moved
    if was_ready:
        state.ready.push(moved)
    return moved


def job_cancelled(state: State, event: e.JobCancelled) -> None:
    job = state.jobs[event.id]
    if job.lease is not None:
        lease = job.lease
        end_lease(state, job, lease, event.at)
        settle(state, job, lease, "cancel")
    state.move(job, Trigger.CANCEL)
    finish(state, job)


def dependency_failed(state: State, event: e.DependencyFailed) -> None:
    job = state.jobs[event.id]
    state.move(job, Trigger.DEPENDENCY_FAILED)
    finish(state, job)


def dependency_ended(state: State, event: e.DependencyEnded) -> None:
    state.graph.resolve(event.id, event.dependency)


def deadline_missed(state: State, event: e.DeadlineMissed) -> None:
    job = state.jobs[event.id]
    state.move(job, Trigger.MISS_DEADLINE)
    finish(state, job)


def finish(state: State, job: Job) -> None:
    """The job is in a terminal state: it leaves every index and lets its payload go."""
    if job.ready:
        state.ready.drop(job)
    if job.deadline is not None or job.not_before is not None:
        state.waits.drop(job.id)
    state.graph.settle(job.id)
    if state.preempting:
        state.preempting.pop(job.id, None)
    state.tenants[job.kind.of.tenant].live -= 1
    state.finished.append(job.id)
    job.payload = b""


def jobs_forgotten(state: State, event: e.JobsForgotten) -> None:
    for job_id in event.ids:
        job = state.jobs.pop(job_id)
        job.kind.jobs -= 1
        state.counts[job.state] -= 1
        state.graph.forget(job_id)
        if job.idempotency_key is not None:
            state.keys.pop((job.kind.of.tenant, job.idempotency_key), None)
        if job.settled is not None:
            state.settled.pop(job.settled.lease_id, None)
    gone = set(event.ids)
    left = len(gone)
    while left and state.finished and state.finished[0] in gone:
        state.finished.popleft()
        left -= 1
    if left:  # not the oldest: some before them stay, since live jobs depend on them
        state.finished = deque(job_id for job_id in state.finished if job_id not in gone)
