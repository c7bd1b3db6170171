"""What the holder of a lease can say. Every word is fenced by the token: a stale one changes nothing."""

from __future__ import annotations

import math

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.decide.jobs import fail_dependents, unlock_dependents
from headgate.core.decide.turn import Turn
from headgate.core.errors import InvalidInput, OutcomeConflict, StaleLease, WorkerBusy
from headgate.core.fingerprint import digest, said_of
from headgate.core.job_input import json_bytes
from headgate.core.lease import Lease, check_token
from headgate.core.state import Job, State
from headgate.core.states import COMPLETE, RUNNING, START, Trigger, step
from headgate.core.typed import typed


def live(state: State, lease_id: str, token: int) -> Lease:
    """The lease, if it is live and the token is its own; otherwise `StaleLease`."""
    lease = state.leases.get(lease_id)
    if lease is None or lease.token != token:
        check_token(token)
        raise StaleLease(f"lease {lease_id!r} is over or the token is not its own: stop the work", lease_id=lease_id)
    return lease


def start(turn: Turn, command: c.Start) -> None:
    """Starting twice is the same as once."""
    state = turn.state
    lease = live(state, command.lease_id, command.token)
    job = state.jobs[lease.job_id]
    if job.state is RUNNING:
        return
    step(job.state, START)
    worker = state.workers[lease.worker_id] if lease.worker_id is not None else None
    if worker is not None and worker.running >= worker.spec.slots:
        raise WorkerBusy(
            f"worker {worker.id} runs {worker.running} jobs in {worker.spec.slots} slots", worker_id=worker.id
        )
    turn.emit(e.JobStarted(turn.now, job.id, lease.id))


def heartbeat(turn: Turn, command: c.Heartbeat) -> c.Beat:
    """Renew one lease."""
    return _renew(turn, live(turn.state, command.lease_id, command.token))


def heartbeats(turn: Turn, command: c.Heartbeats) -> tuple[c.Beat, ...]:
    """Renew many."""
    beats = []
    for lease_id, token in command.beats:
        lease = turn.state.leases.get(lease_id)
        stale = lease is None or lease.token != token
        beats.append(c.Beat(lease_id, stale=True) if stale or lease is None else _renew(turn, lease))
    return tuple(beats)


def _renew(turn: Turn, lease: Lease) -> c.Beat:
    # A clock that lags behind an earlier heartbeat must not shorten the lease.
    expires_at = max(lease.expires_at, turn.now + lease.ttl)
    turn.emit(e.LeaseRenewed(turn.now, lease.id, expires_at))
    return c.Beat(lease.id, expires_at, let_go_by=lease.fence_at)


def progress(turn: Turn, command: c.Progress) -> c.Beat:
    """Progress of a running job, as a share 0..1 and a note."""
    lease = live(turn.state, command.lease_id, command.token)
    fraction = command.fraction
    if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise InvalidInput("must be between 0 and 1", field="fraction")
    turn.emit(e.JobProgressed(turn.now, lease.job_id, lease.id, fraction, command.note[:1_000]))
    return _renew(turn, lease)


def complete(turn: Turn, command: c.Complete) -> None:
    """The work is done. The same word twice is the same as once."""
    lease = _live_or_settled(turn.state, command.lease_id, command.token, "complete", command.result)
    if lease is None:
        return
    state = turn.state
    job = state.jobs[lease.job_id]
    step(job.state, COMPLETE)
    limit = state.settings.limits.payload
    if len(command.result) > limit:
        raise InvalidInput(f"is {len(command.result)} bytes, more than the {limit} allowed", field="result")
    json_bytes(command.result, "result", limit, 0)
    children = state.graph.children(job.id)  # which the event forgets as a whole
    turn.emit(e.JobCompleted(turn.now, job.id, lease.id, command.result, digest(command.result)))
    if children:
        unlock_dependents(turn, children)


def fail(turn: Turn, command: c.Fail) -> None:
    """The work failed; another attempt follows where the job allows one."""
    content = said_of(typed(command.failure, "failure"))
    lease = _live_or_settled(turn.state, command.lease_id, command.token, "fail", content)
    if lease is None:
        return
    job = turn.state.jobs[lease.job_id]
    step(job.state, Trigger.FAIL)
    attempt_failed(turn, job, lease, command.failure, again=command.retry)


def attempt_failed(turn: Turn, job: Job, lease: Lease, failure: e.Failure, *, again: bool = True) -> None:
    """End an attempt as failed, and with it the job unless another attempt is allowed."""
    retry_at = next_attempt(turn, job, lease, "failed") if again else None
    children = [] if retry_at is not None else list(turn.state.graph.children(job.id))
    turn.emit(e.AttemptFailed(turn.now, job.id, lease.id, failure, retry_at))
    if retry_at is None:
        fail_dependents(turn, job.id, children)


def expire(turn: Turn, lease: Lease) -> None:
    """End a lease whose holder fell silent."""
    job = turn.state.jobs[lease.job_id]
    retry_at = next_attempt(turn, job, lease, "expired")
    children = [] if retry_at is not None else list(turn.state.graph.children(job.id))
    turn.emit(e.LeaseExpired(turn.now, job.id, lease.id, retry_at))
    if retry_at is None:
        fail_dependents(turn, job.id, children)
    _doubt_holder(turn, lease)


def _doubt_holder(turn: Turn, lease: Lease) -> None:
    """A worker that missed heartbeats, due at a third of the time, gets nothing until it is heard: it may be frozen."""
    worker = turn.state.workers.get(lease.worker_id) if lease.worker_id is not None else None
    if worker is None or worker.status != "ready" or worker.spec.pull:
        return
    if 2 * (turn.now - worker.last_seen) >= lease.ttl:
        turn.emit(e.WorkerChanged(turn.now, worker.id, "offline", "a lease ran out while it was silent"))


def next_attempt(turn: Turn, job: Job, lease: Lease, outcome: str) -> int | None:
    """When to try again, if the job's retry policy allows it."""
    retry = job.kind.of.retry
    if outcome not in retry.on or lease.attempt >= retry.attempts:
        return None
    return turn.now + retry.delay(lease.attempt, turn.chance())


def release(turn: Turn, command: c.Release) -> None:
    """The lease goes back; the job queues again and the attempt does not count."""
    lease = _live_or_settled(turn.state, command.lease_id, command.token, "release", b"")
    if lease is None:
        return
    # A holder that lets go when asked to make room was preempted: the history should say so.
    cause = "release" if lease.fence_at is None else "preempt"
    turn.emit(e.LeaseReleased(turn.now, lease.job_id, lease.id, cause))  # type: ignore[arg-type]


def _live_or_settled(state: State, lease_id: str, token: int, verb: str, content: bytes) -> Lease | None:
    """The live lease; or none if the lease was settled by this very word; otherwise a typed error."""
    job_id = state.settled.get(lease_id)
    if job_id is None:
        return live(state, lease_id, token)
    job = state.jobs.get(job_id)
    settled = job.settled if job is not None else None
    if settled is None or settled.lease_id != lease_id or settled.token != token:
        return live(state, lease_id, token)
    same = settled.verb == verb or {settled.verb, verb} == {"release", "preempt"}
    if same and settled.digest == digest(content):
        return None
    if settled.verb in ("expire", "preempt", "cancel"):
        raise StaleLease(f"lease {lease_id!r} is over ({settled.verb}): stop the work", lease_id=lease_id)
    raise OutcomeConflict(f"lease {lease_id!r} was settled by {settled.verb!r} already", lease_id=lease_id)
