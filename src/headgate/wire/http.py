"""Bodies of requests and answers of the HTTP API under `/v2`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Json = Any


class Body(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request's body: unknown fields are refused."""


class Out(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an answer: clients ignore what they do not know."""


class Problem(Out, frozen=True):
    """RFC 9457, as `application/problem+json`; `code` is stable and machine-readable (see reference/errors)."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    field: str = ""
    retry_after_ms: int | None = None
    extra: dict[str, Json] = {}


# -- jobs ---------------------------------------------------------------------------------------------------------


class ErrorOut(Out, frozen=True):
    """Why an attempt or a job failed."""

    code: str
    message: str = ""
    traceback: str = ""


class JobOut(Out, frozen=True):
    """A job, as submitted and as it stands."""

    id: str
    name: str
    type: str
    state: str
    priority: str
    job_class: str = msgspec.field(name="class")
    tenant: str = "default"
    rank: int = 0
    units: int = 1
    created_at: float = 0.0
    queued_at: float = 0.0
    attempt: int = 0
    run: dict[str, Json] = {}
    payload: msgspec.Raw = msgspec.Raw(b"null")
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    attributes: msgspec.Raw = msgspec.Raw(b"{}")
    requires: dict[str, str] = {}
    pool: str | None = None
    model_ref: str | None = None
    seed: int | None = None
    max_tokens: int | None = None
    dependencies: tuple[str, ...] = ()
    on_dependency_failure: str = "fail"
    not_before: float | None = None
    deadline: float | None = None
    timeout: float | None = None
    estimated_duration: float | None = None
    retry: dict[str, Json] = {}
    checkpointable: bool = False
    idempotency_key: str | None = None
    retry_of: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    worker_id: str | None = None
    lease_id: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorOut | None = None


class JobsOut(Out, frozen=True):
    """A page of jobs; `next` is the cursor of the next page, if there is one."""

    jobs: list[JobOut]
    next: str | None = None


class SubmittedOut(Out, frozen=True):
    """Answer to a submission: the ids in the order given; `created` is false where a key found an earlier job."""

    ids: list[str]
    created: list[bool]


class PatchIn(Body, frozen=True):
    """Changes to a job that has not started; `not_before: null` takes it away."""

    priority: str | int | None = None
    rank: int | None = None
    labels: dict[str, str] | None = None
    not_before: float | str | msgspec.UnsetType | None = msgspec.UNSET


class CancelIn(Body, frozen=True):
    """Why a job is cancelled."""

    reason: str = ""


class EventOut(Out, frozen=True):
    """One event in the history of a job."""

    number: int
    at: float
    type: str
    data: dict[str, Json] = {}


class ExplainOut(Out, frozen=True):
    """Why a job does not run."""

    job_id: str
    state: str
    reasons: list[dict[str, Json]]
    """Each with `code`, the fields of that reason, and `detail` in words."""
    position: int | None = None
    expected_start: dict[str, float] | None = None


# -- leases and workers -------------------------------------------------------------------------------------------


class LeaseOut(Out, frozen=True):
    """A live lease. Every word on it carries the `token`."""

    lease_id: str
    job_id: str
    token: int
    worker_id: str | None
    capacity_units: int
    attempt: int
    granted_at: float
    expires_at: float
    last_heartbeat: float
    ttl: float
    resources: dict[str, float] = {}
    started_at: float | None = None
    let_go_by: float | None = None


class ClaimIn(Body, frozen=True):
    """A worker asks for a lease, or the submitter of an external job for its own; waits up to `wait_s`."""

    worker_id: str
    job_id: str | None = None
    max_units: int | None = None
    wait_s: float = 0.0


class Denied(Out, frozen=True):
    """Why there is no lease now."""

    code: str
    detail: str
    retry_after_ms: int


class ClaimOut(Out, frozen=True):
    """A lease with its job, or why there is none."""

    lease: LeaseOut | None = None
    job: JobOut | None = None
    denied: Denied | None = None


class TokenIn(Body, frozen=True):
    """A word on a lease that needs nothing but its token: start, heartbeat, release."""

    token: int


class ProgressIn(Body, frozen=True):
    """How far a job is, 0..1, and a note."""

    token: int
    fraction: float | None = None
    note: str = ""


class CompleteIn(Body, frozen=True):
    """The work is done; `log` is what it printed, as far as it was kept."""

    token: int
    result: msgspec.Raw = msgspec.Raw(b"null")
    log: str = ""


class FailIn(Body, frozen=True):
    """The work failed; `retry: false` forbids another attempt."""

    token: int
    error: ErrorOut
    retry: bool = True
    log: str = ""


class BeatOut(Out, frozen=True):
    """Until when a lease holds, and whether its holder should let go before then."""

    lease_id: str
    expires_at: float
    let_go_by: float | None = None
    stale: bool = False


class WorkerIn(Body, frozen=True):
    """A worker registers."""

    id: str
    pool: str = "default"
    slots: int = 1
    prefetch: int = 0
    resources: dict[str, float | str] = {}
    model_ref: str | None = None
    gpu_ids: list[str] = []
    labels: dict[str, str] = {}
    types: list[str] | None = None
    pull: bool = True
    """A worker on the stream is given work as it comes: it says false here."""


class WorkerOut(Out, frozen=True):
    """A worker as the engine sees it."""

    id: str
    pool: str
    status: str
    slots: int
    slots_free: int
    running: int
    prefetch: int = 0
    resources: dict[str, float] = {}
    resources_free: dict[str, float] = {}
    model_ref: str | None = None
    gpu_ids: list[str] = []
    labels: dict[str, str] = {}
    types: list[str] | None = None
    leases: list[str] = []
    completed: int = 0
    last_seen: float = 0.0


# -- load, status, errors -----------------------------------------------------------------------------------------


class LoadIn(Body, frozen=True):
    """A sample of an application's own load; one request at a time (`latency_s`, `error`) or totals."""

    source: str = "api"
    latency_s: float | None = None
    in_flight: int | None = None
    error: bool | None = None
    error_rate: float | None = None


class CapacityOut(Out, frozen=True):
    """The gate: the rating, what it leaves, and what is taken."""

    busy: float
    gate: float
    total_units: int
    usable_units: int
    leased_units: int
    free_units: int
    signals: dict[str, float] = {}
    reasons: list[str] = []


class StatusOut(Out, frozen=True):
    """One look at everything."""

    version: str
    now: float
    epoch: int
    ready: bool
    capacity: CapacityOut
    jobs: dict[str, int]
    ready_by_class: dict[str, int]
    workers: dict[str, int]
    policy: dict[str, Json]
    degraded: list[str] = []


# -- policies -----------------------------------------------------------------------------------------------------


class SourceIn(Body, frozen=True):
    """A policy's source."""

    language: Literal["lua", "yaml"]
    source: str
    name: str | None = None


class DeployIn(Body, frozen=True):
    """A policy to keep and to put in charge, or to let watch."""

    language: Literal["lua", "yaml"]
    source: str
    name: str | None = None
    base_version: str | msgspec.UnsetType | None = msgspec.UNSET
    mode: Literal["active", "shadow"] = "active"
    force: bool = False
    why: str = ""


class RollbackIn(Body, frozen=True):
    """Back to a version, or to the one before."""

    to: str | None = None
    why: str = ""
