"""A fork of the live state: all that a simulation needs to go on from this very moment, as data that can travel.

Taking one only reads. It runs where the state lives and therefore between two commands, so it copies references and
leaves everything that costs time (encoding, drawing run times, simulating) to whoever gets it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headgate.core.cluster import ModelSpec, PoolReport, WorkerSpec
from headgate.core.job import JobSpec
from headgate.core.lease import Lease
from headgate.core.settings import Settings
from headgate.core.state import Job, State
from headgate.core.states import TERMINAL
from headgate.ports import JobQuery, JobView, Store
from headgate.sim.resuming import Used

SHARES = tuple((2 * n + 1) / 40 for n in range(20))
"""The quantiles of run times that travel: the middles of twenty equal parts."""
MOST_JOBS = 50_000
MOST_RECENT = 20_000
SHORTEST = 600_000
"""A server that is younger than this is taken to have been idle before: a first burst is no rate."""
_PAGE = 1_000
_spec = msgspec.msgpack.Decoder(JobSpec)


class ForkedJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that has not ended. Payloads stay behind: no policy sees them."""

    id: str
    seq: int
    created_at: int
    spec: JobSpec
    job_class: int
    attempt: int
    not_before: int | None
    queued_at: int
    lease: Lease | None


class ForkedWorker(msgspec.Struct, frozen=True, array_like=True):
    """A worker and whether it takes work."""

    spec: WorkerSpec
    status: str
    held: int


class Recent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that was submitted lately, and how long it ran if that is known."""

    at: int
    spec: JobSpec
    run: int | None


class Fork(msgspec.Struct, frozen=True):
    """The live state at one moment."""

    at: int
    epoch: int
    seq: int
    tokens: int
    settings: Settings
    busy: float
    """The rating that capacity is reckoned from; the simulation keeps it as it is."""
    usable_units: int
    workers: tuple[ForkedWorker, ...]
    pools: tuple[PoolReport, ...]
    models: tuple[ModelSpec, ...]
    tenants: tuple[Used, ...]
    runs: dict[str, tuple[float, ...]]
    """Run times in milliseconds at `SHARES`, by type of job; under the empty name, those of all."""
    jobs: tuple[ForkedJob, ...] = ()
    open_workers: tuple[str, ...] = ()
    """Those with room, in the order in which they are tried."""
    left_out: int = 0
    """Waiting jobs beyond the most that a fork takes along: the last ones submitted."""
    recent: tuple[Recent, ...] = ()
    recent_since: int = 0
    """From when on `recent` tells of every job."""


def fork_of(state: State, now: int, *, most: int = MOST_JOBS) -> Fork:
    """The state as it is now."""
    live = [job for job in state.jobs.values() if job.state not in TERMINAL]
    waiting = len(live) - len(state.leases)
    room = max(0, most - len(state.leases))
    jobs = tuple(_job(job) for job in (live if waiting <= room else _first(live, room)))
    return Fork(
        now, state.epoch, state.seq, state.tokens, state.settings, state.load.busy, state.usable_units(now),
        tuple(ForkedWorker(worker.spec, worker.status, len(worker.leases)) for worker in state.workers.values()),
        tuple(pool.report for pool in state.pools.values()),
        tuple(state.models.values()),
        tuple(Used(t.spec, t.declared, t.usage, t.usage_at) for t in state.tenants.values()),
        _runs(state, {job.kind.of.type for job in live}),
        jobs, tuple(state.open_workers), max(0, waiting - room),
    )  # fmt: skip


def _first(live: list[Job], room: int) -> Iterable[Job]:
    """What runs, and the jobs that wait longest."""
    for job in live:
        if job.lease is None:
            room -= 1
        if job.lease is not None or room >= 0:
            yield job


def _job(job: Job) -> ForkedJob:
    of = job.kind.of
    spec = JobSpec(of, job.name, b"null", job.seed, job.attributes, job.dependencies, job.not_before, job.deadline)
    lease = None if job.lease is None else msgspec.structs.replace(job.lease)
    return ForkedJob(
        job.id, job.seq, job.created_at, spec, job.kind.job_class, job.attempt, job.not_before, job.queued_at, lease
    )


def _runs(state: State, types: set[str]) -> dict[str, tuple[float, ...]]:
    if state.predictor is None:
        return {}
    runs = state.predictor.runs
    known = {name: runs.spread(name, SHARES) for name in sorted(types)} | {"": runs.spread(None, SHARES)}
    return {name: spread for name, spread in known.items() if spread}


def with_recent(fork: Fork, store: Store, window: int, most: int = MOST_RECENT) -> Fork:
    """The fork with the jobs that were submitted in the window before it; of too many, the last ones.

    It only asks the history, so another thread than the engine's may do it.
    """
    oldest = store.find_jobs(JobQuery(order="oldest", limit=1))
    first = min(oldest[0].job.created_at if oldest else fork.at, fork.at - SHORTEST)
    since = max(fork.at - window, first)
    found: list[Recent] = []
    after: int | None = None
    while len(found) < most:
        limit = min(_PAGE, most - len(found))
        page = store.find_jobs(JobQuery(created_from=since, created_to=fork.at, after=after, limit=limit))
        found += [_recent(view) for view in page]
        if len(page) < limit:
            break
        after = page[-1].job.seq
    since = found[-1].at if len(found) == most else since
    return msgspec.structs.replace(fork, recent=tuple(reversed(found)), recent_since=since)


def _recent(view: JobView) -> Recent:
    end = view.end
    ran = None if end is None or end.started_at is None else max(0, end.ended_at - end.started_at)
    return Recent(view.job.created_at, _plain(_spec.decode(view.job.spec)), ran)


def _plain(spec: JobSpec) -> JobSpec:
    """A job that could come again: on its own, whatever it waited for or was keyed by."""
    return msgspec.structs.replace(spec, payload=b"null", dependencies=(), idempotency_key=None)
