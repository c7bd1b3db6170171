"""Bodies of requests and answers of the HTTP API under `/v2`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Json = Any
NULL = msgspec.Raw(b"null")
EMPTY = msgspec.Raw(b"{}")


def _null() -> msgspec.Raw:
    return NULL


def _empty() -> msgspec.Raw:
    return EMPTY


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
    payload: msgspec.Raw = msgspec.field(default_factory=_null)
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    attributes: msgspec.Raw = msgspec.field(default_factory=_empty)
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
    result: msgspec.Raw = msgspec.field(default_factory=_null)
    error: ErrorOut | None = None


class JobsOut(Out, frozen=True):
    """A page of jobs; `next` is the cursor of the next page, if there is one."""

    jobs: list[JobOut]
    next: str | None = None


class SubmittedJobOut(JobOut, frozen=True, kw_only=True):
    """Answer to the submission of one job: the job, and the same as for many."""

    ids: list[str]
    created: list[bool]


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
    log: str = ""
    """What was printed since the last word."""


class CompleteIn(Body, frozen=True):
    """The work is done; `log` is what it printed, as far as it was kept."""

    token: int
    result: msgspec.Raw = msgspec.field(default_factory=_null)
    log: str = ""


class FailIn(Body, frozen=True):
    """The work failed; `retry: false` forbids another attempt."""

    token: int
    error: ErrorOut
    retry: bool = True
    log: str = ""


class SettledOut(Out, frozen=True):
    """The word that ended a lease is durable."""

    lease_id: str
    settled: str


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
    pull: bool = True


class LeasesOut(Out, frozen=True):
    """Live leases."""

    leases: list[LeaseOut]


class WorkersOut(Out, frozen=True):
    """All workers."""

    workers: list[WorkerOut]


class DrainIn(Body, frozen=True):
    """Why a worker gets no further work."""

    reason: str = ""


class GpuIn(Body, frozen=True):
    """One GPU of a pool's machine."""

    id: str
    name: str = ""
    vram_total: float | str = 0
    vram_allocated: float | str = 0
    utilization: float = 0.0
    temperature: float | None = None


class PoolIn(Body, frozen=True):
    """A pool's heartbeat: the load of its machine, its GPUs, its workers."""

    node: str = ""
    busy: float | None = None
    units: int | None = None
    resources: dict[str, float | str] = {}
    gpus: list[GpuIn] = []
    cached_models: list[str] = []
    workers: list[str] = []
    reasons: list[str] = []
    """Why a signal could not be measured."""
    signals: dict[str, float] = {}
    """What each signal is rated, 0 to 10."""


class GpuOut(Out, frozen=True):
    """One GPU."""

    id: str
    name: str
    vram_total: int
    vram_allocated: int
    vram_free: int
    utilization: float
    temperature: float | None = None


class PoolOut(Out, frozen=True):
    """A pool as the engine sees it."""

    id: str
    status: str
    node: str = ""
    busy: float | None = None
    units: int | None = None
    usable_units: int | None = None
    leased_units: int = 0
    resources: dict[str, float] = {}
    resources_used: dict[str, float] = {}
    gpus: list[GpuOut] = []
    cached_models: list[str] = []
    workers: list[str] = []
    last_report: float | None = None
    reasons: list[str] = []
    signals: dict[str, float] = {}


class PoolsOut(Out, frozen=True):
    """All pools."""

    pools: list[PoolOut]


class TenantIn(Body, frozen=True):
    """Quotas and weight; a quota that is not given is unlimited."""

    weight: float = 1.0
    max_units: int | None = None
    max_leases: int | None = None
    max_queued: int | None = None
    max_resources: dict[str, float | str] = {}


class TenantOut(Out, frozen=True):
    """A tenant with what it may hold and what it holds."""

    id: str
    weight: float
    max_units: int | None = None
    max_leases: int | None = None
    max_queued: int | None = None
    max_resources: dict[str, float] = {}
    declared: bool = False
    queued: int = 0
    leases: int = 0
    leased_units: int = 0
    used: dict[str, float] = {}


class TenantsOut(Out, frozen=True):
    """All tenants."""

    tenants: list[TenantOut]


class ModelIn(Body, frozen=True):
    """An entry of the model catalog."""

    vram: float | str = 0
    aliases: list[str] = []
    resources: dict[str, float | str] = {}


class ModelOut(Out, frozen=True):
    """An entry of the model catalog."""

    id: str
    vram: int = 0
    aliases: list[str] = []
    resources: dict[str, float] = {}


class ModelsOut(Out, frozen=True):
    """The model catalog."""

    models: list[ModelOut]


# -- load, status, errors -----------------------------------------------------------------------------------------


class LoadIn(Body, frozen=True):
    """A sample of an application's own load; one request at a time (`latency_s`, `error`) or totals."""

    source: str = "api"
    latency_s: float | None = None
    in_flight: int | None = None
    error: bool | None = None
    error_rate: float | None = None


class LoadOut(Out, frozen=True):
    """The busy rating after a sample."""

    busy: float


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


class PredictionsOut(Out, frozen=True, omit_defaults=False):
    """How expected starts turned out: of those `started`, how many inside, before and after their interval."""

    stated: int
    started: int
    inside: int
    before: int
    after: int
    share_inside: float | None
    """Four fifths are meant to be inside; none before the first has started."""


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
    predictions: PredictionsOut | None = None


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


class EnableIn(Body, frozen=True):
    """Re-arm a tripped policy."""

    why: str = ""


class DiagnosticOut(Out, frozen=True):
    """One problem of a source at one place; lines and columns count from 1."""

    code: str
    message: str
    line: int
    column: int
    severity: str = "error"
    suggestion: str | None = None
    path: str = ""


class ValidationOut(Out, frozen=True):
    """What the checks of a policy found."""

    ok: bool
    diagnostics: list[DiagnosticOut]
    lua: str = ""
    version: str | None = None
    """The id that this very content would have."""
    contexts: int = 0
    p50_us: int = 0
    p99_us: int = 0
    limit_ms: int = 0


class VersionOut(Out, frozen=True):
    """A policy version as deployed."""

    id: str
    name: str
    version: str
    language: str
    sha256: str
    created_at: float
    author: str = ""
    note: str = ""
    source: str | None = None
    lua: str | None = None
    status: str = ""
    """`active`, `shadow`, `tripped` or nothing."""


class MoveOut(Out, frozen=True):
    """One move of the pointer to the active policy."""

    at: float
    active: str | None
    shadow: str | None
    who: str
    why: str


class VersionsOut(Out, frozen=True):
    """The library of policies, and which of them decides; none active: the platform policy."""

    versions: list[VersionOut]
    active: str | None = None
    shadow: str | None = None
    tripped: dict[str, Json] | None = None
    moves: list[MoveOut] = []
    experiment: str | None = None
    """The experiment that runs: its arms decide meanwhile."""


class PointerOut(Out, frozen=True):
    """Which version decides now."""

    active: str | None
    shadow: str | None = None
    tripped: dict[str, Json] | None = None


class TemplateOut(Out, frozen=True):
    """A policy to start from."""

    name: str
    purpose: str
    language: str
    source: str


class TemplatesOut(Out, frozen=True):
    """The library of templates."""

    templates: list[TemplateOut]


class PlatformSourceOut(Out, frozen=True):
    """The platform policy."""

    language: str
    version: str
    source: str


class DecisionOut(Out, frozen=True):
    """One decision of the policy."""

    id: str
    at: float
    decided_by: str
    version: str
    actions: list[dict[str, Json]]
    refused: list[dict[str, Json]] = []
    failure: str = ""
    message: str = ""
    took_us: int = 0
    waited_us: int = 0
    attempted: str = ""
    shadow: dict[str, Json] | None = None
    traceback: str = ""
    trace: list[str] = []
    logs: list[tuple[str, str]] = []
    question: dict[str, Json] = {}
    told: list[dict[str, Json]] = []
    """What the policy was told since the decision before, as deltas."""
    keyframe: bool = False
    arm: str = ""
    """The experiment and its arm, where one was running."""


class DecisionsOut(Out, frozen=True):
    """Recorded decisions; `next` continues, given as `after`."""

    decisions: list[DecisionOut]
    next: str | None = None


class ReplayIn(Body, frozen=True):
    """A draft to answer in place of the policy that decided; without a source that very policy is asked again."""

    language: Literal["lua", "yaml"] = "lua"
    source: str | None = None
    trace: bool = False
    """Also each line that runs, with the variables that change."""


class TraceStepOut(Out, frozen=True):
    """One line that ran, what it asked of the library, and the variables that changed."""

    depth: int
    source: str
    line: int
    text: str
    function: str
    rule: str = ""
    calls: list[str] = []
    changed: dict[str, str] = {}
    arguments: dict[str, str] = {}


class DecisionContextOut(Out, frozen=True):
    """Everything that is needed to make a decision once more: what the policy was told, as msgpack, and the policy."""

    id: str
    version: str
    language: Literal["lua", "yaml"]
    source: str
    lua: str
    frames: list[bytes]
    question: dict[str, Json]
    actions: list[dict[str, Json]]
    failure: str = ""


class ReplayOut(Out, frozen=True):
    """The recorded answer beside the replayed one."""

    same: bool
    recorded: list[dict[str, Json]]
    replayed: list[dict[str, Json]]
    failure: str = ""
    message: str = ""
    trace: list[TraceStepOut] | None = None


# -- tokens and audit ---------------------------------------------------------------------------------------------


class TokenNewIn(Body, frozen=True):
    """A new bearer token; one that is bound to a tenant sees and does nothing beyond it."""

    scopes: list[Literal["submit", "work", "read", "policy:edit", "policy:activate", "admin"]]
    tenant: str | None = None
    note: str = ""
    expires_in: float | str | None = None
    """Seconds, or a text such as '90d'."""


class TokenOut(Out, frozen=True):
    """A bearer token; `token` is shown once, when it is made."""

    id: str
    scopes: list[str]
    tenant: str | None = None
    note: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    token: str | None = None


class TokensOut(Out, frozen=True):
    """All tokens, without their secrets."""

    tokens: list[TokenOut]


class AuditEntryOut(Out, frozen=True):
    """Who did what."""

    at: float
    who: str
    call: str
    target: dict[str, str]
    status: int
    remote: str = ""
    code: str = ""


class AuditOut(Out, frozen=True):
    """The audit log, oldest first; `next` continues."""

    entries: list[AuditEntryOut]
    next: str | None = None


class CompactIn(Body, frozen=True):
    """Ages from which on things are deleted: seconds, or texts such as '30d'. What is not named stays."""

    jobs: float | str | None = None
    keys: float | str | None = None
    events: float | str | None = None
    decisions: float | str | None = None
    load: float | str | None = None
    audit: float | str | None = None
    logs: float | str | None = None


class CompactedOut(Out, frozen=True):
    """How much was deleted."""

    jobs: int
    histories: int
    journal: int
    records: int
