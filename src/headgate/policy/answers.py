"""The engine's own look at an answer: structure, types, finite numbers, ids that exist, no repeats, not too
many.

One thing wrong refuses the whole answer: a policy that is wrong about one job is not to be trusted about the
next. Whether an action is *allowed* (capacity, quotas, fencing) is not decided here but by the core's check.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator
from typing import Any

import msgspec

from headgate.policy.deltas import (
    Delta,
    JobAdded,
    JobRemoved,
    PoolRemoved,
    PoolSet,
    Reset,
    RunningRemoved,
    RunningSet,
    WorkerRemoved,
    WorkerSet,
)

MAX_ACTIONS = 1024


class Dispatch(msgspec.Struct, tag_field="action", tag="dispatch", frozen=True):
    """Give this job to this worker; a job that its submitter runs himself needs none."""

    job_id: str
    worker_id: str | None = None
    reason: str | None = None


class Wait(msgspec.Struct, tag_field="action", tag="wait", frozen=True):
    """Nothing more now; perhaps ask again after a while."""

    reason: str | None = None
    retry_after_ms: float | None = None


class Evict(msgspec.Struct, tag_field="action", tag="evict", frozen=True):
    """Stop this idle worker."""

    evict_worker_id: str
    reason: str | None = None


class WorkerStart(msgspec.Struct, frozen=True):
    """Which worker to start, and where."""

    model_ref: str
    pool_id: str
    gpu_id: int | str | None = None


class StartWorker(msgspec.Struct, tag_field="action", tag="start_worker", frozen=True):
    """Start a worker for a model."""

    start_worker: WorkerStart
    reason: str | None = None


class Preempt(msgspec.Struct, tag_field="action", tag="preempt", frozen=True):
    """Stop these running jobs to make room for that one."""

    job_id: str
    victims: list[str]
    reason: str | None = None


class _Batch(msgspec.Struct, tag_field="action", tag="batch", frozen=True):
    actions: list[Dispatch | Wait | Evict | StartWorker | Preempt]
    reason: str | None = None


Action = Dispatch | Wait | Evict | StartWorker | Preempt


class InvalidAnswer(ValueError):
    """The answer is not one; the message names the place."""


class Known:
    """The ids that the policy has been told of, kept from the same deltas."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.external: set[str] = set()
        self.workers: dict[str, set[str]] = {}
        """With the jobs that run there."""
        self.pools: set[str] = set()

    def note(self, deltas: Iterable[Delta]) -> None:
        """Follow the stream."""
        for delta in deltas:
            match delta:
                case JobAdded():
                    self.jobs.add(delta.id)
                    if delta.external:
                        self.external.add(delta.id)
                case JobRemoved():
                    self.jobs.discard(delta.id)
                    self.external.discard(delta.id)
                case WorkerSet():
                    self.workers[delta.id] = {job.id for job in delta.current_jobs}
                    self.pools.add(delta.pool_id)
                case RunningSet() if delta.worker_id in self.workers:
                    self.workers[delta.worker_id].add(delta.job.id)
                case RunningRemoved() if delta.worker_id in self.workers:
                    self.workers[delta.worker_id].discard(delta.job_id)
                case WorkerRemoved():
                    self.workers.pop(delta.id, None)
                case PoolSet():
                    self.pools.add(delta.id)
                case PoolRemoved():
                    self.pools.discard(delta.id)
                case Reset():
                    self.__init__()  # type: ignore[misc]
                case _:
                    pass

    def running(self) -> set[str]:
        """Jobs that hold a slot."""
        return {job_id for jobs in self.workers.values() for job_id in jobs}


def check(raw: list[dict[str, Any]], known: Known, limit: int = MAX_ACTIONS) -> list[Action]:
    """The actions of an answer, flat and typed; `InvalidAnswer` when anything at all is wrong."""
    actions = list(_typed(raw))
    if len(actions) > limit:
        raise InvalidAnswer(f"{len(actions)} actions, at most {limit} are allowed")
    seen: set[tuple[str, str]] = set()
    for place, action in enumerate(actions, 1):
        for problem in _problems(action, known, seen):
            raise InvalidAnswer(f"action {place}: {problem}")
    return actions


def _typed(raw: list[dict[str, Any]]) -> Iterator[Action]:
    try:
        answers = msgspec.convert(raw, list[Dispatch | Wait | Evict | StartWorker | Preempt | _Batch])
    except msgspec.ValidationError as error:
        raise InvalidAnswer(str(error)) from error
    for answer in answers:
        if isinstance(answer, _Batch):
            yield from answer.actions
        else:
            yield answer


def _problems(action: Action, known: Known, seen: set[tuple[str, str]]) -> Iterator[str]:
    match action:
        case Dispatch():
            yield from _unknown("job_id", action.job_id, known.jobs)
            if action.worker_id is not None or action.job_id not in known.external:
                yield from _unknown("worker_id", action.worker_id or "", known.workers)
            yield from _repeated("job_id", action.job_id, seen)
        case Evict():
            yield from _unknown("evict_worker_id", action.evict_worker_id, known.workers)
            yield from _repeated("evict_worker_id", action.evict_worker_id, seen)
        case Preempt():
            yield from _unknown("job_id", action.job_id, known.jobs)
            yield from _repeated("job_id", action.job_id, seen)
            yield from _victims(action, known, seen)
        case StartWorker():
            yield from _unknown("start_worker.pool_id", action.start_worker.pool_id, known.pools)
        case Wait():
            after = action.retry_after_ms
            if after is not None and not (math.isfinite(after) and after >= 0):
                yield "retry_after_ms has to be a finite number, at least 0"


def _victims(action: Preempt, known: Known, seen: set[tuple[str, str]]) -> Iterator[str]:
    if not action.victims:
        yield "victims is empty"
    running = known.running()
    for victim in action.victims:
        yield from _unknown("victims", victim, running)
        yield from _repeated("victims", victim, seen)


def _unknown(field: str, value: str, ids: Container[str]) -> Iterator[str]:
    if value not in ids:
        yield f"{field} {value[:80]!r} is not known"


def _repeated(field: str, value: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    kind = "victim" if field == "victims" else field
    if (kind, value) in seen:
        yield f"{field} {value[:80]!r} comes twice"
    seen.add((kind, value))
