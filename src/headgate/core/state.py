"""The state: everything the core knows, and the indexes that make it fast to ask.

Only `apply` changes it. Reading it is free; what reads it must not keep a reference across a command.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from headgate.core.bucket import Bucket
from headgate.core.capacity import Load
from headgate.core.cluster import ModelSpec, Pool, PoolReport, Worker
from headgate.core.errors import JobNotFound, ModelNotFound, PoolNotFound, TenantNotFound, WorkerNotFound
from headgate.core.fingerprint import spec_digest
from headgate.core.graph import Graph
from headgate.core.job import JobKind, JobSpec
from headgate.core.lease import Lease
from headgate.core.quantities import Amount
from headgate.core.ready import ReadyQueue
from headgate.core.settings import Settings, check_settings
from headgate.core.states import BLOCKED, QUEUED, TRANSITIONS, JobState, Trigger, step
from headgate.core.tenants import Tenant, TenantSpec
from headgate.core.timers import Wheel

if TYPE_CHECKING:
    from headgate.core.predict import Predictor


class Kind:
    """A kind of job at run time; `job_class` differs from the kind's own only for jobs that aged."""

    __slots__ = ("bucket", "job_class", "jobs", "of", "preemptible")

    def __init__(self, of: JobKind, job_class: int, bucket: Bucket, preemptible: bool) -> None:
        self.of = of
        self.job_class = job_class
        self.bucket = bucket
        self.preemptible = preemptible
        self.jobs = 0


class Settled(msgspec.Struct, frozen=True, gc=False):
    """How a job's last lease ended, so that a repeat of the same word is recognised."""

    lease_id: str
    token: int
    verb: str
    """`complete`, `fail` or `release` by the holder; `expire`, `preempt` or `cancel` over its head."""
    digest: bytes
    worker_id: str | None
    started_at: int | None


class Job(msgspec.Struct, gc=False):
    """A job at run time. `not_before` is the earliest next start, moved by retries."""

    id: str
    kind: Kind
    name: str
    payload: bytes
    seed: int | None
    attributes: bytes
    dependencies: tuple[str, ...]
    not_before: int | None
    deadline: int | None
    idempotency_key: str | None
    seq: int
    created_at: int
    queued_at: int
    state: JobState
    attempt: int = 0
    ready: bool = False
    parked: bool = False
    """Whether an entry for it stands in its bucket, ready or passed over."""
    lease: Lease | None = None
    settled: Settled | None = None

    def spec(self) -> JobSpec:
        """The specification as it now stands."""
        return JobSpec(
            self.kind.of,
            self.name,
            self.payload,
            self.seed,
            self.attributes,
            self.dependencies,
            self.not_before,
            self.deadline,
            self.idempotency_key,
        )


_kind_of = attrgetter("kind")


def plain_job(
    job_id: str, kind: Kind, name: str, payload: bytes, seed: int | None, attributes: bytes, seq: int, at: int
) -> Job:
    """A job that waits for nothing but room, as `State.enter_plain` takes it: ready, and in no line yet."""
    return Job(job_id, kind, name, payload, seed, attributes, (), None, None, None, seq, at, at, QUEUED, 0, True)


def _large_index() -> dict[str, Job]:
    """An empty index that stays quick when a million jobs are in it.

    CPython leaves the hashes out of a dict that has held nothing but text: a look that meets another key must go and
    see that key, wherever it lies in memory. In one that has held anything else they stand beside the keys, and with
    a million of them a new job is told from all others in half the time.
    """
    index: dict[Any, Any] = dict.fromkeys((None,))
    del index[None]
    return index


class PolicyWait(msgspec.Struct, frozen=True):
    """The policy's last word, where that was to wait."""

    at: int
    reason: str
    until: int | None


class State:
    """All jobs, leases, workers, pools, tenants and models, and the load."""

    def __init__(self, settings: Settings | None = None, epoch: int = 1) -> None:
        self.settings = check_settings(settings or Settings())
        self.epoch = epoch
        self.now = 0
        self.ticked_at = 0
        self.restood_at = 0
        self.seq = 0
        self.tokens = 0
        self.jobs = _large_index()
        self.kinds: dict[tuple[JobKind, int], Kind] = {}
        self.counts: dict[JobState, int] = dict.fromkeys(JobState, 0)
        self.ready = ReadyQueue()
        self.graph = Graph()
        self.waits: Wheel[str] = Wheel()
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.finished: deque[str] = deque()
        self.leases: dict[str, Lease] = {}
        self.lease_timers: Wheel[str] = Wheel()
        self.settled: dict[str, str] = {}
        self.preempting: dict[str, set[str]] = {}
        self.preemptible = 0
        """Leases that a preemption may ask to go: those of a preemptible class that were not asked yet."""
        self.workers: dict[str, Worker] = {}
        self.open_workers: dict[str, Worker] = {}
        self.pools: dict[str, Pool] = {}
        self.models: dict[str, ModelSpec] = {}
        self.tenants: dict[str, Tenant] = {}
        self.documents: dict[tuple[str, str], bytes] = {}
        self.load = Load(self.settings)
        self.leased_units = 0
        self.totals: dict[str, Amount] = {}
        self.room = 0
        """Grows whenever something that did not fit might fit now."""
        self.policy_wait: PolicyWait | None = None
        self.predictor: Predictor | None = None
        """Who forecasts from this state, if anybody: it learns beside the state and decides nothing."""

    # -- looking things up ------------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job:
        """The job, or `JobNotFound`."""
        job = self.jobs.get(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id!r}", job_id=job_id)
        return job

    def worker(self, worker_id: str) -> Worker:
        """The worker, or `WorkerNotFound`."""
        worker = self.workers.get(worker_id)
        if worker is None:
            raise WorkerNotFound(f"there is no worker {worker_id!r}", worker_id=worker_id)
        return worker

    def pool(self, pool_id: str) -> Pool:
        """The pool, or `PoolNotFound`."""
        pool = self.pools.get(pool_id)
        if pool is None:
            raise PoolNotFound(f"there is no pool {pool_id!r}", pool_id=pool_id)
        return pool

    def tenant(self, tenant_id: str) -> Tenant:
        """The tenant, or `TenantNotFound`."""
        tenant = self.tenants.get(tenant_id)
        if tenant is None:
            raise TenantNotFound(f"there is no tenant {tenant_id!r}", tenant_id=tenant_id)
        return tenant

    def model(self, model_id: str) -> ModelSpec:
        """The catalog's entry for a model or an alias of it, or `ModelNotFound`."""
        model = self.models.get(model_id)
        if model is None:
            model = next((m for m in self.models.values() if model_id in m.aliases), None)
        if model is None:
            raise ModelNotFound(f"there is no model {model_id!r} in the catalog", model_id=model_id)
        return model

    @property
    def depth(self) -> int:
        """Jobs that wait, for whatever reason."""
        return self.counts[QUEUED] + self.counts[BLOCKED]

    def usable_units(self, now: int) -> int:
        """Units that may be leased now, held ones included."""
        return self.load.usable_at(now)

    def next_timer(self) -> int | None:
        """The earliest moment at which a tick has something to do for a job or a lease."""
        moments = [at for at in (self.waits.next(), self.lease_timers.next()) if at is not None]
        return min(moments, default=None)

    def soonest_timer(self) -> int | None:
        """A moment before which no tick is needed; cheap enough to ask after every command."""
        wait, lease = self.waits.soonest(), self.lease_timers.soonest()
        if wait is None or lease is None:
            return lease if wait is None else wait
        return min(wait, lease)

    # -- the small steps that events are made of ----------------------------------------------------------------

    def tenant_named(self, tenant_id: str) -> Tenant:
        """The tenant, made on first use: naming one in a job is enough."""
        tenant = self.tenants.get(tenant_id)
        if tenant is None:
            tenant = self.tenants[tenant_id] = Tenant(TenantSpec(tenant_id), declared=False)
        return tenant

    def pool_named(self, pool_id: str) -> Pool:
        """The pool, made on first use: a worker may come before its pool reports."""
        pool = self.pools.get(pool_id)
        if pool is None:
            pool = self.pools[pool_id] = Pool(PoolReport(pool_id), 0)
            pool.last_report = None
        return pool

    def kind_for(self, of: JobKind, job_class: int) -> Kind:
        """The run-time kind; equal kinds are one object."""
        kind = self.kinds.get((of, job_class))
        if kind is None:
            preemptible = job_class in self.settings.preemptible_classes
            kind = Kind(of, job_class, self.ready.bucket_for(job_class, of), preemptible)
            self.kinds[of, job_class] = kind
        return kind

    def enter(self, job_id: str, seq: int, at: int, spec: JobSpec, kind: Kind, first: JobState) -> Job:
        """A job comes into being."""
        kind.jobs += 1
        job = Job(
            job_id,
            kind,
            spec.name,
            spec.payload,
            spec.seed,
            spec.attributes,
            spec.dependencies,
            spec.not_before,
            spec.deadline,
            spec.idempotency_key,
            seq,
            at,
            at,
            first,
        )
        self.jobs[job_id] = job
        if spec.idempotency_key is not None:
            self.keys[spec.kind.tenant, spec.idempotency_key] = (job_id, spec_digest(spec))
        return job

    def enter_plain(self, jobs: list[Job]) -> None:
        """Many jobs come into being, in order of submission: ready as they are made, and known by no key."""
        self.jobs.update(zip([job.id for job in jobs], jobs, strict=True))
        self.counts[QUEUED] += len(jobs)
        for kind, alike in groupby(jobs, _kind_of):
            same = list(alike)
            kind.jobs += len(same)
            self.tenant_named(kind.of.tenant).live += len(same)
            self.ready.push_all(kind.bucket, same)

    def move(self, job: Job, trigger: Trigger) -> None:
        """Take one step of the transition table."""
        before = job.state
        after = TRANSITIONS.get((before, trigger)) or step(before, trigger)
        self.counts[before] -= 1
        self.counts[after] += 1
        job.state = after

    def reopen(self, worker: Worker) -> None:
        """Keep the index of workers with room in step."""
        has_room = worker.status == "ready" and len(worker.leases) < worker.limit
        if has_room and (worker.claims > 0 or not worker.spec.pull):
            self.open_workers.setdefault(worker.id, worker)
        else:
            self.open_workers.pop(worker.id, None)

    @staticmethod
    def may_be_preempted(job: Job, lease: Lease) -> bool:
        """Whether the holder may be asked to make room for others."""
        return lease.fence_at is None and job.kind.preemptible

    def dominant_share(self, units: int, held: Iterable[tuple[str, Amount]]) -> float:
        """The largest share of anything that is held."""
        total = self.settings.total_units
        share = units / total if total else 0.0
        for name, value in held:
            whole = self.totals.get(name)
            if whole:
                share = max(share, value / whole)
        return share

    def restand(self, tenant: Tenant, now: int) -> None:
        """Move a tenant to where it stands in the order of fair share."""
        present = self.dominant_share(tenant.leased_units, tenant.used.items())
        standing = tenant.standing(present, now, self.settings.fair_half_life)
        self.ready.restand(tenant.spec.id, standing)
