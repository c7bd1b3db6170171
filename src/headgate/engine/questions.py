"""Questions: what can be asked of an engine without changing anything. Each names the type of its answer.

Every interface asks these, in this process or through a socket, so the answer to "what is job X doing?" is one piece
of code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from headgate.core.errors import JobNotFound
from headgate.core.events import Failure, decode
from headgate.core.explain import Explanation, explain, startable
from headgate.core.job import CLASSES, JobKind, JobSpec
from headgate.core.lease import Lease
from headgate.core.predict import Accuracy
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.states import TERMINAL, JobState
from headgate.engine.index import PLACES
from headgate.engine.rows import JOB_FIELD, encode
from headgate.engine.soundness import reading
from headgate.ports import JobQuery, JobView, RecordRow, Store, StoreDamaged

R = TypeVar("R")
_spec = msgspec.msgpack.Decoder(JobSpec).decode
_kind = msgspec.msgpack.Decoder(JobKind).decode
_failure = msgspec.msgpack.Decoder(Failure).decode
_ENTRIES = 200
"""Commits that are read at a time."""
_body = msgspec.msgpack.Decoder().decode


class Question(msgspec.Struct, Generic[R], frozen=True):
    """Something asked, answered by an `R`."""


class JobInfo(msgspec.Struct, frozen=True):
    """All there is to say of a job."""

    id: str
    seq: int
    state: JobState
    kind: JobKind
    job_class: str
    spec: JobSpec
    created_at: int
    queued_at: int
    not_before: int | None
    attempt: int
    started_at: int | None
    ended_at: int | None
    worker_id: str | None
    lease_id: str | None
    retry_of: str | None
    result: bytes | None
    """Encoded JSON."""
    error: Failure | None


class HistoryEntry(msgspec.Struct, frozen=True):
    """One event of a job."""

    number: int
    at: int
    type: str
    body: list[Any]


class Status(msgspec.Struct, frozen=True):
    """One look at everything."""

    now: int
    epoch: int
    busy: float
    gate: float
    signals: dict[str, float]
    reasons: tuple[str, ...]
    total_units: int
    usable_units: int
    leased_units: int
    states: dict[str, int]
    ready_by_class: dict[str, int]
    workers: dict[str, int]
    degraded: tuple[str, ...]
    predictions: Accuracy | None = None
    """How often jobs started inside the stated interval, where somebody forecasts."""

    @property
    def free_units(self) -> int:
        """Units that a lease could take now."""
        return max(0, self.usable_units - self.leased_units)


class GetJob(Question[JobInfo], frozen=True, tag=True):
    """One job, live or ended; `JobNotFound` if there is none."""

    job_id: str


class FindJobs(Question[list[JobInfo]], frozen=True, tag=True):
    """A page of jobs."""

    query: JobQuery


class GetHistory(Question[list[HistoryEntry]], frozen=True, tag=True):
    """What happened to a job, oldest first."""

    job_id: str
    after: int = 0
    limit: int = 1_000


class Explain(Question[Explanation], frozen=True, tag=True):
    """Why a job does not run."""

    job_id: str


class GetStatus(Question[Status], frozen=True, tag=True):
    """Busy rating, capacity, depth, workers."""


class CountJobs(Question[dict[str, dict[str, int]]], frozen=True, tag=True):
    """How many jobs there are and were, by state and class."""


class GetSettings(Question[Settings], frozen=True, tag=True):
    """The settings that the owner of the database goes by."""


class GetLeases(Question[list[Lease]], frozen=True, tag=True):
    """Live leases, of one worker or of all."""

    worker_id: str | None = None


class GetDocuments(Question[dict[str, bytes]], frozen=True, tag=True):
    """The documents of a kind, by id."""

    kind: str


class EventEntry(msgspec.Struct, frozen=True):
    """One event of whatever it was that it happened to."""

    number: int
    at: int
    """When it was committed."""
    type: str
    job_id: str | None
    body: list[Any]


class FindEvents(Question[list[EventEntry]], frozen=True, tag=True):
    """What happened to all jobs, workers, tenants and documents, in the order of commits, in a range of time.

    `after` is the number of the last event of the page before; empty `types` mean any.
    """

    since: int = 0
    until: int | None = None
    types: tuple[str, ...] = ()
    after: int = 0
    limit: int = 1_000


class GetRecords(Question[list[RecordRow]], frozen=True, tag=True):
    """Entries of a log (`decision`, `load`, `audit`) in a range of time."""

    kind: str
    since: int = 0
    until: int | None = None
    key: str | None = None
    limit: int = 1_000


STORED = (GetJob, FindJobs, GetHistory, FindEvents, CountJobs, GetRecords)
"""Questions that the store answers alone, without a look at the state."""


def answer(question: Question[R], state: State, store: Store, now: int) -> R:
    """Answer a question from the state and the store."""
    with reading(f"{store.name}: a stored row"):
        return _answer(question, state, store, now)


def _answer(question: Question[R], state: State, store: Store, now: int) -> R:
    reply: Any
    match question:
        case GetJob():
            reply = job_info(_view(store, question.job_id))
        case FindJobs():
            reply = [job_info(view) for view in store.find_jobs(question.query)]
        case GetHistory():
            _view(store, question.job_id)
            reply = history_of(store, question.job_id, question.after, question.limit)
        case FindEvents():
            reply = list(islice(_events(store, question), question.limit))
        case Explain():
            reply = _explain(state, store, question.job_id, now)
        case GetStatus():
            reply = _status(state, now)
        case CountJobs():
            reply = _counts(store)
        case GetSettings():
            reply = state.settings
        case GetLeases():
            wanted = question.worker_id
            reply = [lease for lease in state.leases.values() if wanted is None or lease.worker_id == wanted]
        case GetDocuments():
            reply = {id_: body for (kind, id_), body in state.documents.items() if kind == question.kind}
        case GetRecords():
            reply = store.records(question.kind, question.since, question.until, question.key, question.limit)
        case _:
            raise TypeError(f"{type(question).__name__} is not a question this engine knows")
    return reply  # type: ignore[no-any-return]  # each case answers with its question's type


def history_of(store: Store, job_id: str, after: int = 0, limit: int = 1_000) -> list[HistoryEntry]:
    """What happened to a job, as far as it has been indexed."""
    rows = store.events_of(job_id, after, limit)
    return [HistoryEntry(row.number, row.at, row.type, _body(row.body)) for row in rows]


def _events(store: Store, asked: FindEvents) -> Iterator[EventEntry]:
    commit = max(0, (asked.after >> PLACES) - 1)
    while page := store.entries(asked.since, asked.until, commit, _ENTRIES):
        for row in page:
            for place, event in enumerate(decode(row.events)):
                number = row.number << PLACES | place
                name = str(event.__struct_config__.tag)
                if number > asked.after and (not asked.types or name in asked.types):
                    job_id = getattr(event, JOB_FIELD.get(type(event), ""), None)
                    yield EventEntry(number, row.at, name, job_id, _body(encode(event)))
        commit = page[-1].number


def ended(state: State, job_id: str) -> bool | None:
    """Whether a job has ended; none while it has not. For waiting."""
    job = state.jobs.get(job_id)
    return True if job is None or job.state in TERMINAL else None


def _view(store: Store, job_id: str) -> JobView:
    view = store.get_job(job_id)
    if view is None:
        raise JobNotFound(f"there is no job {job_id!r}", job_id=job_id)
    return view


def job_info(view: JobView) -> JobInfo:
    """A stored job in words."""
    job, status, lease, end = view.job, view.status, view.lease, view.end
    spec = _spec(job.spec)
    kind = _kind(status.kind) if status is not None and status.kind is not None else spec.kind
    job_class = job.job_class if status is None else status.job_class
    last: Any = lease if lease is not None else end
    result = end.result if end is not None else None
    error = end.error if end is not None else None
    return JobInfo(
        job.id,
        job.seq,
        view.state,
        kind,
        _class_name(job_class),
        spec,
        job.created_at,
        job.created_at if status is None else status.queued_at,
        spec.not_before if status is None else status.not_before,
        last.attempt if last is not None else (status.attempt if status is not None else 0),
        last.started_at if last is not None else None,
        end.ended_at if end is not None else None,
        last.worker_id if last is not None else None,
        last.lease_id if last is not None else None,
        job.retry_of,
        result,
        _failure(error) if error is not None else None,
    )


def _explain(state: State, store: Store, job_id: str, now: int) -> Explanation:
    if job_id not in state.jobs:
        view = _view(store, job_id)
        return Explanation(job_id, view.state, (), None)
    explanation = explain(state, job_id, now)
    if state.predictor is None or not startable(state, state.jobs[job_id]):
        return explanation
    return msgspec.structs.replace(explanation, expected=state.predictor.estimate(state, job_id, now))


def _status(state: State, now: int) -> Status:
    load = state.load
    workers: dict[str, int] = {}
    for worker in state.workers.values():
        workers[worker.shown_status] = workers.get(worker.shown_status, 0) + 1
    stale = load.stale(now, state.settings)
    return Status(
        now,
        state.epoch,
        10.0 if stale else load.rating,
        load.busy,
        load.signals,
        load.reasons,
        state.settings.total_units,
        state.usable_units(now),
        state.leased_units,
        {str(job_state): count for job_state, count in state.counts.items()},
        dict(zip(CLASSES, state.ready.by_class, strict=True)),
        workers,
        tuple(dict.fromkeys([*(f"no fresh sample from {source}" for source in stale), *load.reasons])),
        state.predictor.accuracy if state.predictor is not None else None,
    )


def _counts(store: Store) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (job_state, job_class), count in store.counts().items():
        found.setdefault(str(job_state), {})[_class_name(job_class)] = count
    return found


def _class_name(job_class: int) -> str:
    if not 0 <= job_class < len(CLASSES):
        raise StoreDamaged(f"a job of class {job_class} cannot be: the store is damaged")
    return CLASSES[job_class]
