"""Projection: what a group of events changed, as the rows of one commit. Pure; the state comes in as an argument."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core import events as e
from headgate.core.cluster import Worker, WorkerSpec, WorkerStatus
from headgate.core.job import JobKind
from headgate.core.lease import Lease
from headgate.core.state import Job, State
from headgate.core.states import TERMINAL
from headgate.ports import Batch, DocumentRow, EndRow, JobRow, LeaseRow, RecordRow, StatusRow

encode = msgspec.msgpack.Encoder().encode
_new_row = tuple.__new__
"""What the constructor of a named tuple comes to, without a call in Python."""

_ALTERING = frozenset(
    {e.JobPatched, e.JobAged, e.JobUnblocked, e.AttemptFailed, e.LeaseExpired, e.LeaseReleased, e.DependencyEnded}
)
"""Events after which a job that has not ended is no longer as it was submitted."""

_BY_ID: tuple[type[e.Event], ...] = (
    e.JobSubmitted,
    e.JobUnblocked,
    e.JobAged,
    e.JobPatched,
    e.JobCancelled,
    e.DependencyFailed,
    e.DependencyEnded,
    e.DeadlineMissed,
)
_BY_JOB_ID: tuple[type[e.Event], ...] = (
    e.LeaseGranted,
    e.JobStarted,
    e.JobCompleted,
    e.AttemptFailed,
    e.LeaseExpired,
    e.LeaseReleased,
    e.PreemptionAsked,
    e.PreemptionLifted,
)
JOB_FIELD: dict[type[e.Event], str] = {
    **dict.fromkeys(_BY_ID, "id"),
    **dict.fromkeys(_BY_JOB_ID, "job_id"),
}
"""Durable events of jobs, and the field that names the job."""

_WORKERS = frozenset({e.WorkerRegistered, e.WorkerWanted, e.WorkerChanged, e.WorkerRemoved, e.WorkerEvicted})


class WorkerDocument(msgspec.Struct, frozen=True, array_like=True):
    """A worker as the store keeps it."""

    spec: WorkerSpec
    status: WorkerStatus
    registered_at: int
    held: bool = False


class LowWater:
    """The submission number below which every job has ended, kept with one byte for each job above it."""

    def __init__(self, start: int = 1) -> None:
        self.mark = start
        self._ended = bytearray()

    def ended(self, seq: int) -> None:
        """A job ended."""
        place = seq - self.mark
        if place == 0 and not self._ended:  # the oldest of those that have not, and nothing is known of later ones
            self.mark += 1
            return
        if place >= len(self._ended):
            self._ended.extend(bytes(place + 1 - len(self._ended)))
        self._ended[place] = 1
        if place == 0:
            first_open = self._ended.find(0)
            done = len(self._ended) if first_open < 0 else first_open
            self.mark += done
            del self._ended[:done]


class Changes:
    """Collects events between two commits. Changes to one job are written once, as they stand at the end."""

    def __init__(self, low_water: int = 1) -> None:
        self.low_water = LowWater(low_water)
        self.lease_rows: set[int] = set()
        self.status_rows: set[int] = set()
        self.seqs: dict[str, int] = {}
        """The submission numbers of the jobs in the last batch that was taken."""
        self._clear()

    def _clear(self) -> None:
        self.events: list[e.Event] = []
        self._new: list[e.JobSubmitted] = []
        self._touched: dict[str, None] = {}
        self._ended: dict[str, Job] = {}
        self._ended_waiting: set[str] = set()
        self._altered: set[str] = set()
        self._results: dict[str, bytes] = {}
        self._failures: dict[str, e.Failure] = {}
        self._documents: dict[tuple[str, str], None] = {}
        self.records: list[RecordRow] = []

    def __bool__(self) -> bool:
        return bool(self.events or self.records)

    def note(self, events: list[e.Event], state: State) -> None:
        """Take in events that have just been applied."""
        noted, touched = self.events, self._touched
        event: Any
        for event in events:
            kind = type(event)
            if kind is e.JobSubmitted:
                noted.append(event)
                self._new.append(event)
            elif kind is e.LeaseGranted or kind is e.JobStarted:  # most of the others, and the simplest
                noted.append(event)
                touched[event.job_id] = None
            elif kind not in e.TRANSIENT:
                noted.append(event)
                field = JOB_FIELD.get(kind)
                if field is not None:
                    self._note_job(event, kind, getattr(event, field), state)
                else:
                    self._note_document(event, kind)

    def _note_job(self, event: Any, kind: type[e.Event], job_id: str, state: State) -> None:
        self._touched[job_id] = None
        job = state.jobs[job_id]
        if job.state in TERMINAL:  # the core may forget it before the commit
            self._ended[job_id] = job
            if kind is e.DeadlineMissed or (kind is e.JobCancelled and job.settled and job.settled.verb != "cancel"):
                self._ended_waiting.add(job_id)
        if kind is e.JobCompleted:
            self._results[job_id] = event.result
            return
        failure = _failure(event)
        if failure is not None:
            self._failures[job_id] = failure
        if kind in _ALTERING:
            self._altered.add(job_id)

    def _note_document(self, event: Any, kind: type[e.Event]) -> None:
        if kind in _WORKERS:
            worker_id = event.spec.id if hasattr(event, "spec") else event.id
            self._documents["worker", worker_id] = None
        elif kind in (e.TenantSet, e.TenantRemoved):
            self._documents["tenant", event.spec.id if kind is e.TenantSet else event.id] = None
        elif kind in (e.ModelSet, e.ModelRemoved):
            self._documents["model", event.spec.id if kind is e.ModelSet else event.id] = None
        elif kind is e.DocumentSet:
            self._documents[event.kind, event.id] = None

    def take(self, state: State, number: int, at: int) -> Batch:
        """The rows of the next commit; collecting starts anew."""
        batch = Batch(number, state.epoch, at, state.seq, state.tokens, self.low_water.mark)
        if self.events:
            batch.journal = e.journal(self.events)
        if self._new:
            batch.jobs = job_rows(self._new)
        self.seqs = self._project(state, batch, at) if self._touched else {}
        if self._documents:
            batch.documents = [DocumentRow(kind, id_, _document(state, kind, id_)) for kind, id_ in self._documents]
        batch.records = self.records
        batch.low_water = self.low_water.mark
        self._clear()
        return batch

    def _project(self, state: State, batch: Batch, at: int) -> dict[str, int]:
        """The rows of jobs that were there before, as they stand now; returns their submission numbers."""
        jobs, ended, held, altered = state.jobs, self._ended, self.lease_rows, self._altered
        seqs: dict[str, int] = {}
        for job_id in self._touched:
            job = ended.get(job_id)
            if job is not None:
                seqs[job_id] = job.seq
                self._project_end(job, batch, at)
                continue
            job = jobs[job_id]
            seq = seqs[job_id] = job.seq
            if job_id in altered:
                batch.statuses.append(status_row(job))
                self.status_rows.add(seq)
            if job.lease is not None:
                batch.leases.append(lease_row(seq, job.lease))
                held.add(seq)
            elif seq in held:
                held.remove(seq)
                batch.leases_gone.append(seq)
        return seqs

    def _project_end(self, job: Job, batch: Batch, at: int) -> None:
        seq = job.seq
        batch.ends.append(self._end_row(job, at))
        if seq in self.lease_rows:
            self.lease_rows.remove(seq)
            batch.leases_gone.append(seq)
        if seq in self.status_rows:
            self.status_rows.remove(seq)
            batch.statuses_gone.append(seq)
        self.low_water.ended(seq)

    def _end_row(self, job: Job, at: int) -> EndRow:
        failure, result, settled = self._failures.get(job.id), self._results.get(job.id), job.settled
        error = encode(failure) if failure is not None and result is None else None
        state = job.state._value_
        if settled is None:
            return EndRow(job.seq, state, at, job.attempt, None, None, None, None, None, None, error, result)
        # A job that ended while it waited ended on no worker; what its last lease said still tells a repeat.
        held = job.id not in self._ended_waiting
        started_at, worker_id = (settled.started_at, settled.worker_id) if held else (None, None)
        said = (settled.lease_id, settled.token, settled.verb, settled.digest)
        return _new_row(EndRow, (job.seq, state, at, job.attempt, started_at, worker_id, *said, error, result))


def _failure(event: e.Event) -> e.Failure | None:
    match event:
        case e.AttemptFailed():
            return event.failure
        case e.LeaseExpired():
            return e.Failure("expired", "the holder fell silent and the lease ran out")
        case e.JobCancelled():
            return e.Failure("cancelled", event.reason)
        case e.DependencyFailed():
            return e.Failure("dependency_failed", f"job {event.dependency} did not complete")
        case e.DeadlineMissed():
            return e.Failure("deadline_missed", "it had not started when its deadline came")
    return None


def job_rows(events: list[e.JobSubmitted]) -> list[JobRow]:
    """Jobs as submitted. Jobs of one kind come together: it is encoded once, and put into each specification."""
    rows: list[JobRow] = []
    of: JobKind | None = None
    tenant = type_ = priority = ""
    job_class, encoded_kind = 0, msgspec.Raw()
    for event in events:
        spec = event.spec
        if spec is None:
            raise ValueError(f"job {event.id} was submitted without its specification")
        if spec.kind is not of:
            of = spec.kind
            tenant, type_, priority, job_class = of.tenant, of.type, of.priority, of.job_class
            encoded_kind = msgspec.Raw(encode(of))
        name, key = spec.name, spec.idempotency_key
        body = encode(
            (  # the fields of `JobSpec`
                encoded_kind,
                name,
                spec.payload,
                spec.seed,
                spec.attributes,
                spec.dependencies,
                spec.not_before,
                spec.deadline,
                key,
            )
        )
        first = event.state._value_  # `value` is a descriptor in Python, and costs as much as the rest of the row
        again = event.retry_of
        row = (event.seq, event.id, event.at, first, tenant, type_, name, priority, job_class, key, again, body)
        rows.append(_new_row(JobRow, row))
    return rows


def status_row(job: Job) -> StatusRow:
    """What has changed about a job since it was submitted."""
    settled = job.settled
    return StatusRow(
        job.seq,
        job.state.value,
        job.attempt,
        job.not_before,
        job.queued_at,
        job.kind.job_class,
        encode(job.kind.of),
        settled.lease_id if settled is not None else None,
        settled.token if settled is not None else None,
        settled.verb if settled is not None else None,
        settled.digest if settled is not None else None,
    )


def lease_row(seq: int, lease: Lease) -> LeaseRow:
    """The live lease of a job with that submission number."""
    return _new_row(
        LeaseRow,
        (
            seq,
            lease.id,
            lease.token,
            lease.worker_id,
            lease.pool_id,
            lease.granted_at,
            lease.started_at,
            lease.ttl,
            lease.attempt,
            lease.fence_at,
            lease.for_job,
        ),
    )


def _document(state: State, kind: str, id_: str) -> bytes | None:
    if kind == "worker":
        worker = state.workers.get(id_)
        return None if worker is None else encode(_worker_document(worker))
    if kind == "tenant":
        tenant = state.tenants.get(id_)
        return encode(tenant.spec) if tenant is not None and tenant.declared else None
    if kind == "model":
        model = state.models.get(id_)
        return None if model is None else encode(model)
    return state.documents.get((kind, id_))


def _worker_document(worker: Worker) -> WorkerDocument:
    return WorkerDocument(worker.spec, worker.status, worker.registered_at, worker.held)
