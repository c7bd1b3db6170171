"""Submitting, cancelling and changing jobs; unlocking and failing those that depend on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.decide.turn import Turn
from headgate.core.errors import (
    DependencyTooDeep,
    DuplicateJob,
    IdempotencyConflict,
    IllegalTransition,
    InvalidJob,
    QueueFull,
    QuotaExceeded,
    UnknownDependency,
)
from headgate.core.fingerprint import spec_digest
from headgate.core.graph import depths
from headgate.core.job import PRIORITIES, JobKind
from headgate.core.state import Job, State
from headgate.core.states import BLOCKED, QUEUED, TERMINAL, WAITING, JobState, Trigger, step
from headgate.core.tenants import Tenant
from headgate.core.typed import all_plain, check_kind, check_own, instant, sayable

RETRY_AFTER = 1_000
"""What a submitter is told to wait when the queue is full."""


def submit(turn: Turn, command: c.Submit) -> c.Submitted:
    """Take in all jobs or none."""
    state = turn.state
    if all_plain(command.jobs, state.settings.limits):
        return _submit_plain(turn, command.jobs)
    answer, fresh = _recognise(state, command)
    kinds = _count_kinds(fresh)
    _check_kinds(state, kinds)
    for new in fresh:
        check_own(new.id, new.spec, new.retry_of, state.settings.limits)
    _check_room(state, kinds)
    depth = _check_dependencies(state, fresh, command.finished)
    for new in _parents_first(fresh, depth):
        _take_in(turn, new, depth.get(new.id, 0), command.finished)
    return answer


def _submit_plain(turn: Turn, jobs: tuple[c.NewJob, ...]) -> c.Submitted:
    """Jobs that wait for nothing but room: the work on each is kept down, for bulk submissions live by it."""
    state, now = turn.state, turn.now
    ids = tuple([new.id for new in jobs])
    _refuse_known(state, ids)
    kinds = _count_kinds(jobs)
    _check_kinds(state, kinds)
    _check_room(state, kinds)
    turn.emit_plain([e.JobSubmitted(now, new.id, seq, new.spec, QUEUED) for seq, new in enumerate(jobs, state.seq + 1)])
    return c.Submitted(ids, (True,) * len(ids))


def _refuse_known(state: State, ids: tuple[str, ...]) -> None:
    if state.jobs.keys().isdisjoint(ids) and (len(ids) == 1 or len(set(ids)) == len(ids)):
        return
    seen: set[str] = set()
    for id_ in ids:
        if id_ in state.jobs or id_ in seen:
            raise DuplicateJob(f"there is a job {id_!r} already", job_id=id_)
        seen.add(id_)


def _recognise(state: State, command: c.Submit) -> tuple[c.Submitted, list[c.NewJob]]:
    """Tell new jobs from repeats of an idempotency key."""
    ids: list[str] = []
    created: list[bool] = []
    fresh: list[c.NewJob] = []
    seen: set[str] = set()
    keys: dict[tuple[str, str], tuple[str, bytes]] = {}
    for new in command.jobs:
        key = new.spec.idempotency_key
        if key is not None:
            owner = (new.spec.kind.tenant, key)
            body = spec_digest(new.spec)
            known = state.keys.get(owner) or keys.get(owner) or command.keys.get(c.key_name(*owner))
            if known is not None:
                if known[1] != body:
                    raise IdempotencyConflict(
                        f"idempotency key {key!r} was used before with another body", job_id=known[0]
                    )
                ids.append(known[0])
                created.append(False)
                continue
            keys[owner] = (new.id, body)
        if new.id in state.jobs or new.id in seen:
            raise DuplicateJob(f"there is a job {new.id!r} already", job_id=new.id)
        seen.add(new.id)
        ids.append(new.id)
        created.append(True)
        fresh.append(new)
    return c.Submitted(tuple(ids), tuple(created)), fresh


def _count_kinds(fresh: Sequence[c.NewJob]) -> dict[JobKind, int]:
    """How many jobs there are of each kind: what jobs of a kind share is looked at once."""
    if len(fresh) == 1:  # to make a counter takes its time
        return {fresh[0].spec.kind: 1}
    return Counter([new.spec.kind for new in fresh])


def _check_kinds(state: State, kinds: dict[JobKind, int]) -> None:
    """A kind is looked at when it first comes: all its jobs share it."""
    for kind in kinds:
        if (kind, PRIORITIES.get(kind.priority)) not in state.kinds:
            check_kind(kind, state.settings.limits)


def _check_room(state: State, kinds: dict[JobKind, int]) -> None:
    limit = state.settings.max_queue_depth
    if limit and kinds and state.depth + sum(kinds.values()) > limit:
        text = f"the queue holds {state.depth} of {limit} jobs"
        raise QueueFull(text, depth=state.depth, limit=limit, retry_after=RETRY_AFTER)
    wanted: dict[str, int] = {}
    for kind, count in kinds.items():
        tenant = state.tenants.get(kind.tenant)
        if tenant is not None and tenant.spec.max_queued is not None:
            wanted[kind.tenant] = wanted.get(kind.tenant, 0) + count
    for name, count in wanted.items():
        _check_quota(state.tenants[name], count)


def _check_quota(tenant: Tenant, count: int) -> None:
    most, queued, name = tenant.spec.max_queued, tenant.queued, tenant.spec.id
    if most is not None and queued + count > most:
        text = f"tenant {name} has {queued} jobs waiting and may have {most}"
        raise QuotaExceeded(text, tenant=name, depth=queued, limit=most, retry_after=RETRY_AFTER)


def _check_dependencies(state: State, fresh: list[c.NewJob], finished: dict[str, JobState]) -> dict[str, int]:
    """Unknown ids, self and cycles are refused, and so are chains that are too long. Returns the depth of each job."""
    edges = {new.id: new.spec.dependencies for new in fresh if new.spec.dependencies}
    if not edges:
        return {}
    new_ids = {new.id for new in fresh}
    for job_id, dependencies in edges.items():
        for dependency in dependencies:
            if dependency == job_id:
                raise InvalidJob("a job cannot depend on itself", field="dependencies", job_id=job_id)
            if dependency not in state.jobs and dependency not in new_ids and dependency not in finished:
                raise UnknownDependency(f"there is no job {dependency!r}", field="dependencies", dependency=dependency)
    found = depths(edges, state.graph)
    deepest = state.settings.max_dependency_depth
    for job_id, depth in found.items():
        if depth > deepest:
            text = f"the chain of dependencies is longer than {deepest}"
            raise DependencyTooDeep(text, field="dependencies", job_id=job_id, limit=deepest)
    return found


def _parents_first(fresh: list[c.NewJob], depth: dict[str, int]) -> list[c.NewJob]:
    return sorted(fresh, key=lambda new: depth.get(new.id, 0)) if depth else fresh


def _take_in(turn: Turn, new: c.NewJob, depth: int, finished: dict[str, JobState]) -> None:
    state, spec = turn.state, new.spec
    open_, ended_badly = _standing(state, spec.dependencies, finished) if spec.dependencies else ((), None)
    waits_for = () if ended_badly is not None and spec.kind.on_dependency_failure == "fail" else open_
    doomed = ended_badly is not None and spec.kind.on_dependency_failure == "fail"
    first = BLOCKED if waits_for or doomed else QUEUED
    turn.emit(e.JobSubmitted(turn.now, new.id, state.seq + 1, spec, first, waits_for, depth, new.retry_of))
    if doomed and ended_badly is not None:
        turn.emit(e.DependencyFailed(turn.now, new.id, ended_badly))


def _standing(
    state: State, dependencies: tuple[str, ...], finished: dict[str, JobState]
) -> tuple[tuple[str, ...], str | None]:
    """The dependencies that have not ended, and the first that ended otherwise than completed."""
    open_: list[str] = []
    bad: str | None = None
    for dependency in dependencies:
        job = state.jobs.get(dependency)
        ended = finished[dependency] if job is None else job.state
        if ended not in TERMINAL:
            open_.append(dependency)
        elif ended is not JobState.COMPLETED and bad is None:
            bad = dependency
    return tuple(open_), bad


def forget(turn: Turn, command: c.Forget) -> tuple[str, ...]:
    """Forget ended jobs that are about to be deleted; answers with those that may be."""
    state = turn.state
    may_go = tuple(job_id for job_id in command.ids if _may_go(state, job_id))
    known = tuple(job_id for job_id in may_go if job_id in state.jobs)
    if known:
        turn.emit(e.JobsForgotten(turn.now, known))
    return may_go


def _may_go(state: State, job_id: str) -> bool:
    job = state.jobs.get(job_id)
    return (job is None or job.state in TERMINAL) and not state.graph.needed(job_id)


def cancel(turn: Turn, command: c.Cancel) -> None:
    """Cancelling twice is the same as once."""
    job = turn.state.job(command.job_id)
    if job.state is JobState.CANCELLED:
        return
    step(job.state, Trigger.CANCEL)
    children = list(turn.state.graph.children(job.id))
    turn.emit(e.JobCancelled(turn.now, job.id, sayable(command.reason)))
    fail_dependents(turn, job.id, children)


def patch(turn: Turn, command: c.Patch) -> None:
    """Only a job that waits can be changed."""
    job = turn.state.job(command.job_id)
    if job.state not in WAITING:
        raise IllegalTransition(f"a job that is {job.state} cannot be changed", state=str(job.state), trigger="patch")
    kind = _patched_kind(job, command)
    not_before = job.not_before if command.not_before is msgspec.UNSET else command.not_before
    check_kind(kind, turn.state.settings.limits)
    instant(not_before, "not_before")
    if kind == job.kind.of and not_before == job.not_before and job.kind.job_class == kind.job_class:
        return
    turn.emit(e.JobPatched(turn.now, job.id, kind, not_before))


def _patched_kind(job: Job, command: c.Patch) -> JobKind:
    if command.priority is not None and command.priority not in PRIORITIES:
        raise InvalidJob(f"must be one of {', '.join(PRIORITIES)}", field="priority")
    changes = {name: getattr(command, name) for name in ("priority", "rank", "labels")}
    return msgspec.structs.replace(job.kind.of, **{k: v for k, v in changes.items() if v is not None})


def unlock_dependents(turn: Turn, children: list[str]) -> None:
    """A dependency completed: let in those that wait for nothing else."""
    state = turn.state
    for child in children:
        job = state.jobs.get(child)
        if job is not None and job.state is BLOCKED and not state.graph.pending(child):
            turn.emit(e.JobUnblocked(turn.now, child))


def fail_dependents(turn: Turn, job_id: str, children: list[str]) -> None:
    """A job ended otherwise than completed: fail those that depend on it, and theirs, unless they run regardless."""
    state = turn.state
    work = [(job_id, children)]
    while work:
        dependency, waiting = work.pop()
        for child in waiting:
            job = state.jobs.get(child)
            if job is None or job.state is not BLOCKED:
                continue
            if job.kind.of.on_dependency_failure == "run":
                turn.emit(e.DependencyEnded(turn.now, child, dependency))
                if not state.graph.pending(child):
                    turn.emit(e.JobUnblocked(turn.now, child))
                continue
            grandchildren = list(state.graph.children(child))
            turn.emit(e.DependencyFailed(turn.now, child, dependency))
            work.append((child, grandchildren))
