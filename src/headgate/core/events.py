"""Events: the only things that change the state.

Each is a small array on disk, so new fields go to the end. Events marked `TRANSIENT` are not journaled: they carry
what a restart forgets on purpose (renewals, samples of load) or recomputes (a job whose time has come).
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from headgate.core.cluster import ModelSpec, PoolReport, PoolStatus, WorkerSpec, WorkerStatus
from headgate.core.job import JobKind, JobSpec
from headgate.core.states import JobState
from headgate.core.tenants import TenantSpec


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Something that happened, at a time."""

    at: int


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why an attempt did not succeed."""

    code: str
    message: str = ""
    traceback: str = ""
    exit_status: int | None = None
    """Of a command, as a shell gives it: 128 and the number of the signal, if one killed it."""


# -- jobs ---------------------------------------------------------------------------------------------------------


class JobSubmitted(Event, frozen=True, tag="job-submitted"):
    id: str
    seq: int
    spec: JobSpec | None
    """None in the journal: the specification stands in the job's own row and never changes."""
    state: JobState
    waits_for: tuple[str, ...] = ()
    depth: int = 0
    retry_of: str | None = None


class JobUnblocked(Event, frozen=True, tag="job-unblocked"):
    id: str


class JobDue(Event, frozen=True, tag="job-due"):
    id: str


class JobAged(Event, frozen=True, tag="job-aged"):
    id: str
    job_class: int


class JobPatched(Event, frozen=True, tag="job-patched"):
    id: str
    kind: JobKind
    not_before: int | None


class JobCancelled(Event, frozen=True, tag="job-cancelled"):
    id: str
    reason: str = ""


class DependencyFailed(Event, frozen=True, tag="dependency-failed"):
    id: str
    dependency: str


class DependencyEnded(Event, frozen=True, tag="dependency-ended"):
    """A dependency of a job that runs regardless ended otherwise than completed."""

    id: str
    dependency: str


class DeadlineMissed(Event, frozen=True, tag="deadline-missed"):
    id: str


class JobsForgotten(Event, frozen=True, tag="jobs-forgotten"):
    ids: tuple[str, ...]


# -- leases -------------------------------------------------------------------------------------------------------


class LeaseGranted(Event, frozen=True, tag="lease-granted"):
    job_id: str
    lease_id: str
    token: int
    worker_id: str | None
    expires_at: int
    attempt: int
    reason: str = ""


class JobStarted(Event, frozen=True, tag="job-started"):
    job_id: str
    lease_id: str


class LeaseRenewed(Event, frozen=True, tag="lease-renewed"):
    lease_id: str
    expires_at: int


class JobProgressed(Event, frozen=True, tag="job-progressed"):
    job_id: str
    lease_id: str
    fraction: float | None
    note: str = ""


class JobCompleted(Event, frozen=True, tag="job-completed"):
    job_id: str
    lease_id: str
    result: bytes
    """Empty in the journal: the result stands in the row of the job's end."""
    digest: bytes = b""


class AttemptFailed(Event, frozen=True, tag="attempt-failed"):
    """The holder failed or ran too long; `retry_at` is set where another attempt follows."""

    job_id: str
    lease_id: str
    failure: Failure
    retry_at: int | None


class LeaseExpired(Event, frozen=True, tag="lease-expired"):
    job_id: str
    lease_id: str
    retry_at: int | None


class LeaseReleased(Event, frozen=True, tag="lease-released"):
    job_id: str
    lease_id: str
    cause: Literal["release", "preempt"]


class PreemptionAsked(Event, frozen=True, tag="preemption-asked"):
    lease_id: str
    job_id: str
    for_job: str
    fence_at: int


class PreemptionLifted(Event, frozen=True, tag="preemption-lifted"):
    """The job that room was being made for needs it no more: the holder may stay."""

    lease_id: str
    job_id: str


# -- the cluster --------------------------------------------------------------------------------------------------


class WorkerRegistered(Event, frozen=True, tag="worker-registered"):
    spec: WorkerSpec
    status: WorkerStatus = "ready"


class WorkerChanged(Event, frozen=True, tag="worker-changed"):
    id: str
    status: WorkerStatus
    reason: str = ""
    hold: bool = False


class WorkerSeen(Event, frozen=True, tag="worker-seen"):
    id: str


class WorkerClaimed(Event, frozen=True, tag="worker-claimed"):
    id: str
    claims: int


class WorkerRemoved(Event, frozen=True, tag="worker-removed"):
    id: str


class WorkerWanted(Event, frozen=True, tag="worker-wanted"):
    """A pool is asked to start a worker for a model."""

    spec: WorkerSpec
    reason: str = ""


class WorkerEvicted(Event, frozen=True, tag="worker-evicted"):
    """A worker is asked to leave: an idle one, to make room for another model; any, by an administrator."""

    id: str
    reason: str = ""


class PoolReported(Event, frozen=True, tag="pool-reported"):
    report: PoolReport


class PoolChanged(Event, frozen=True, tag="pool-changed"):
    id: str
    status: PoolStatus


class PoolRemoved(Event, frozen=True, tag="pool-removed"):
    id: str


class TenantSet(Event, frozen=True, tag="tenant-set"):
    spec: TenantSpec


class TenantRemoved(Event, frozen=True, tag="tenant-removed"):
    id: str


class ModelSet(Event, frozen=True, tag="model-set"):
    spec: ModelSpec


class ModelRemoved(Event, frozen=True, tag="model-removed"):
    id: str


class DocumentSet(Event, frozen=True, tag="document-set"):
    """A document that the core keeps and does not read: a policy version, a pointer. None deletes it."""

    kind: str
    id: str
    body: bytes | None


# -- load and the policy ------------------------------------------------------------------------------------------


class LoadSampled(Event, frozen=True, tag="load-sampled"):
    source: str
    signals: dict[str, float | None]
    ratings: dict[str, float]
    reasons: tuple[str, ...]


class LoadWithdrawn(Event, frozen=True, tag="load-withdrawn"):
    source: str


class RatingChanged(Event, frozen=True, tag="rating-changed"):
    rating: float
    signals: dict[str, float]
    reasons: tuple[str, ...]
    blind: bool = False


class CapacityChanged(Event, frozen=True, tag="capacity-changed"):
    busy: float
    usable: int
    cause: Literal["schedule", "spike", "first", "heard"]
    blind: bool = False


class PolicyWaited(Event, frozen=True, tag="policy-waited"):
    reason: str
    retry_after: int | None


TRANSIENT: Final[frozenset[type[Event]]] = frozenset(
    {
        JobDue,
        JobsForgotten,
        JobProgressed,
        LeaseRenewed,
        WorkerSeen,
        WorkerClaimed,
        PoolReported,
        LoadSampled,
        LoadWithdrawn,
        RatingChanged,
        CapacityChanged,
        PolicyWaited,
    }
)

EVENT_TYPES: Final[tuple[type[Event], ...]] = tuple(Event.__subclasses__())
_encoder = msgspec.msgpack.Encoder()
_SUBMITTED: Final = JobSubmitted.__struct_config__.tag


def _union() -> Any:
    union: Any = EVENT_TYPES[0]
    for event_type in EVENT_TYPES[1:]:
        union = union | event_type
    return union


_decoder: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list.__class_getitem__(_union()))


def _slim(event: Event) -> Event | tuple[object, ...]:
    """The event as the journal keeps it: large content stands elsewhere, once."""
    if type(event) is JobSubmitted:  # a tuple is encoded alike, and made in half the time
        submitted = event.state._value_
        return (
            _SUBMITTED,
            event.at,
            event.id,
            event.seq,
            None,
            submitted,
            event.waits_for,
            event.depth,
            event.retry_of,
        )
    if type(event) is JobCompleted:
        return JobCompleted(event.at, event.job_id, event.lease_id, b"", event.digest)
    return event


def journal(events: list[Event]) -> bytes:
    """One blob of durable events, for the journal."""
    return _encoder.encode([_slim(event) for event in events])


def encode(events: list[Event]) -> bytes:
    """One blob of whole events."""
    return _encoder.encode(events)


def decode(blob: bytes) -> list[Event]:
    """Events back from a blob."""
    return _decoder.decode(blob)
