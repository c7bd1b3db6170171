"""Commands: everything that can be asked of the core. Each names the type of the answer it gets."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from headgate.core.actions import Action, Refusal
from headgate.core.cluster import ModelSpec, PoolReport, WorkerSpec
from headgate.core.events import Failure
from headgate.core.job import JobSpec
from headgate.core.states import JobState
from headgate.core.tenants import TenantSpec

R = TypeVar("R")


class Command(msgspec.Struct, Generic[R], frozen=True):
    """Something asked, answered by an `R`."""


# -- answers ------------------------------------------------------------------------------------------------------


class Submitted(msgspec.Struct, frozen=True):
    """The ids of the jobs, in the order given; `created` is false where an idempotency key found an earlier job."""

    ids: tuple[str, ...]
    created: tuple[bool, ...]


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: until when the lease holds, and whether the holder should let go before then."""

    lease_id: str
    expires_at: int = 0
    stale: bool = False
    let_go_by: int | None = None


class Scheduled(msgspec.Struct, frozen=True):
    """What became of a plan: leases granted, and the actions that did not hold with the reason."""

    granted: tuple[str, ...]
    refused: tuple[Refusal, ...]


# -- jobs ---------------------------------------------------------------------------------------------------------


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job to be: its id is made outside the core."""

    id: str
    spec: JobSpec
    retry_of: str | None = None


def key_name(tenant: str, key: str) -> str:
    """One name for a tenant's idempotency key; neither part can hold a NUL."""
    return f"{tenant}\0{key}"


class Submit(Command[Submitted], frozen=True, tag=True):
    """Take in jobs, all or none. `finished` tells how jobs ended that the core has forgotten."""

    jobs: tuple[NewJob, ...]
    finished: dict[str, JobState] = {}
    keys: dict[str, tuple[str, bytes]] = {}
    """By `key_name`: the job and the body's fingerprint of idempotency keys that the core has forgotten."""


class Cancel(Command[None], frozen=True, tag=True):
    """End a job that has not ended; a running holder is told to stop."""

    job_id: str
    reason: str = ""


class Patch(Command[None], frozen=True, tag=True):
    """Change a job that has not started. What is not given stays."""

    job_id: str
    priority: str | None = None
    rank: int | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    not_before: int | msgspec.UnsetType | None = msgspec.UNSET


class Schedule(Command[Scheduled], frozen=True, tag=True):
    """Carry out a plan: each action is checked against the state that the ones before it left."""

    actions: tuple[Action, ...]


# -- leases -------------------------------------------------------------------------------------------------------


class Start(Command[None], frozen=True, tag=True):
    """The holder begins to work."""

    lease_id: str
    token: int


class Heartbeat(Command[Beat], frozen=True, tag=True):
    """The holder is alive."""

    lease_id: str
    token: int


class Heartbeats(Command[tuple[Beat, ...]], frozen=True, tag=True):
    """Many holders are alive; stale ones are told so and spoil nothing for the others."""

    beats: tuple[tuple[str, int], ...]


class Progress(Command[Beat], frozen=True, tag=True):
    """The holder reports how far it is, which is a heartbeat too."""

    lease_id: str
    token: int
    fraction: float | None = None
    note: str = ""


class Complete(Command[None], frozen=True, tag=True):
    """The work is done. `result` is encoded JSON."""

    lease_id: str
    token: int
    result: bytes = b"null"


class Fail(Command[None], frozen=True, tag=True):
    """The work failed."""

    lease_id: str
    token: int
    failure: Failure
    retry: bool = True
    """False: do not try again, whatever the job's retry policy says."""


class Release(Command[None], frozen=True, tag=True):
    """The holder gives the lease back undone; the attempt does not count."""

    lease_id: str
    token: int


# -- the cluster --------------------------------------------------------------------------------------------------


class RegisterWorker(Command[None], frozen=True, tag=True):
    """A worker joins, or says anew what it is."""

    spec: WorkerSpec


class WorkerBeat(Command[None], frozen=True, tag=True):
    """An idle worker is alive."""

    worker_id: str


class Claim(Command[None], frozen=True, tag=True):
    """A pulling worker asks for work: `claims` leases are wanted from now on, 0 withdraws the claim."""

    worker_id: str
    claims: int = 1


class DrainWorker(Command[None], frozen=True, tag=True):
    """Give the worker no further work."""

    worker_id: str
    reason: str = ""
    hold: bool = False
    """Whether it stays so when the worker registers anew, until somebody undrains it."""


class UndrainWorker(Command[None], frozen=True, tag=True):
    """Give a draining worker work again."""

    worker_id: str
    reason: str = ""


class EvictWorker(Command[None], frozen=True, tag=True):
    """Ask a worker to stop its jobs at once, give back their leases and leave."""

    worker_id: str
    reason: str = ""


class FailWorker(Command[None], frozen=True, tag=True):
    """The worker is broken: no further work, and its leases end as expired."""

    worker_id: str
    reason: str = ""


class RemoveWorker(Command[None], frozen=True, tag=True):
    """The worker leaves. With live leases this is refused unless forced, which ends them as expired."""

    worker_id: str
    force: bool = False


class ReportPool(Command[None], frozen=True, tag=True):
    """A pool's heartbeat."""

    report: PoolReport


class RemovePool(Command[None], frozen=True, tag=True):
    """Forget a pool without workers."""

    pool_id: str


class SetTenant(Command[None], frozen=True, tag=True):
    """Set a tenant's quotas and weight."""

    spec: TenantSpec


class RemoveTenant(Command[None], frozen=True, tag=True):
    """Back to no quotas and weight 1."""

    tenant_id: str


class SetModel(Command[None], frozen=True, tag=True):
    """Enter a model into the catalog."""

    spec: ModelSpec


class RemoveModel(Command[None], frozen=True, tag=True):
    """Take a model out of the catalog."""

    model_id: str


class PutDocument(Command[None], frozen=True, tag=True):
    """Keep a document; none deletes it. With `expect`, only if it is what the caller believes (none: not there)."""

    kind: str
    id: str
    body: bytes | None
    expect: bytes | msgspec.UnsetType | None = msgspec.UNSET


# -- load and time ------------------------------------------------------------------------------------------------


class SampleLoad(Command[float], frozen=True, tag=True):
    """One source's sample of load; answers with the rating."""

    source: str
    signals: dict[str, float | None]
    reasons: dict[str, str] = {}
    """By signal: why there is no value, where the source knows."""


class WithdrawLoad(Command[float], frozen=True, tag=True):
    """A source says that it will report no more, so its silence is not held against the machine."""

    source: str


class Tick(Command[None], frozen=True, tag=True):
    """Time has passed: expire, time out, fence, age, let delayed jobs in, recalculate capacity."""


class Forget(Command[tuple[str, ...]], frozen=True, tag=True):
    """Ended jobs have come of age. Answers with those that may be deleted, which are forgotten at once.

    A live job never may, nor one that a live job depends on.
    """

    ids: tuple[str, ...]


class Resume(Command[None], frozen=True, tag=True):
    """The engine itself was away: every live lease gets a full TTL before it may expire."""
