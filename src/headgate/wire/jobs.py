"""Jobs on the wire: submitted, shown, explained."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.wire.base import Body, Json, Out, empty, null


class ErrorOut(Out, frozen=True):
    """Why an attempt or a job failed."""

    code: str
    message: str = ""
    traceback: str = ""
    exit_status: int | None = None


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
    payload: msgspec.Raw = msgspec.field(default_factory=null)
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    attributes: msgspec.Raw = msgspec.field(default_factory=empty)
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
    result: msgspec.Raw = msgspec.field(default_factory=null)
    error: ErrorOut | None = None


class JobsOut(Out, frozen=True):
    """A page of jobs; `next` is the cursor of the next page, if there is one."""

    jobs: list[JobOut]
    next: str | None = None


class SubmittedJobOut(JobOut, frozen=True, kw_only=True):
    """Answer to the submission of one job: the job, and the same as for many."""

    ids: list[str]
    created: list[bool]
    warnings: list[str] = []


class SubmittedOut(Out, frozen=True):
    """Answer to a submission: the ids in the order given; `created` is false where a key found an earlier job."""

    ids: list[str]
    created: list[bool]
    warnings: list[str] = []
    """Why jobs that were taken can never start as things are: they need more than there is."""


class PatchIn(Body, frozen=True):
    """Changes to a job that has not started; `not_before: null` takes it away."""

    priority: str | int | None = None
    rank: int | None = None
    labels: dict[str, str] | None = None
    not_before: float | str | msgspec.UnsetType | None = msgspec.UNSET


class JobIn(Body, frozen=True):
    """A job to submit, as reference/jobs describes it. Times are seconds since 1970 or ISO 8601, durations seconds
    or texts such as '5m', amounts numbers or texts such as '8GB'. In an array, a dependency `#0` is its first job.
    """

    name: str | msgspec.UnsetType = msgspec.UNSET
    type: str | msgspec.UnsetType = msgspec.UNSET
    run: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET
    payload: Json | msgspec.UnsetType = msgspec.UNSET
    priority: str | int | msgspec.UnsetType = msgspec.UNSET
    rank: int | msgspec.UnsetType = msgspec.UNSET
    tenant: str | msgspec.UnsetType = msgspec.UNSET
    units: int | msgspec.UnsetType = msgspec.UNSET
    resources: dict[str, float | str] | msgspec.UnsetType = msgspec.UNSET
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    attributes: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET
    requires: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    pool: str | msgspec.UnsetType | None = msgspec.UNSET
    model_ref: str | msgspec.UnsetType | None = msgspec.UNSET
    seed: int | msgspec.UnsetType | None = msgspec.UNSET
    max_tokens: int | msgspec.UnsetType | None = msgspec.UNSET
    dependencies: list[str] | msgspec.UnsetType = msgspec.UNSET
    on_dependency_failure: Literal["fail", "run"] | msgspec.UnsetType = msgspec.UNSET
    not_before: float | str | msgspec.UnsetType | None = msgspec.UNSET
    deadline: float | str | msgspec.UnsetType | None = msgspec.UNSET
    timeout: float | str | msgspec.UnsetType | None = msgspec.UNSET
    estimated_duration: float | str | msgspec.UnsetType | None = msgspec.UNSET
    retry: int | dict[str, Json] | msgspec.UnsetType = msgspec.UNSET
    checkpointable: bool | msgspec.UnsetType = msgspec.UNSET
    idempotency_key: str | msgspec.UnsetType | None = msgspec.UNSET


class CancelIn(Body, frozen=True):
    """Why a job is cancelled."""

    reason: str = ""


class EventOut(Out, frozen=True):
    """One event."""

    number: int
    at: float
    type: str
    data: dict[str, Json] = {}
    job_id: str | None = None
    """In lists of events of everything."""


class EventsOut(Out, frozen=True):
    """Events, oldest first; `next` continues them."""

    events: list[EventOut]
    next: int | None = None


class LogEntryOut(Out, frozen=True):
    """A piece of a job's output; `?after=` its number gets what came later, also while the job runs."""

    number: int
    at: float
    text: str


class LogsOut(Out, frozen=True):
    """What a job printed, oldest first."""

    job_id: str
    logs: list[LogEntryOut]


class ExpectedOut(Out, frozen=True):
    """When a job should start: four in five start from `low` to `high`. Times are seconds since 1970."""

    start: float
    low: float
    high: float
    learned_from: int
    """How many earlier waits the interval rests on; the fewer, the less it is worth."""


class ExplainOut(Out, frozen=True):
    """Why a job does not run."""

    job_id: str
    state: str
    reasons: list[dict[str, Json]]
    """Each with `code`, the fields of that reason, and `detail` in words."""
    position: int | None = None
    expected_start: ExpectedOut | None = None
    """Only while it waits for something that time brings."""
