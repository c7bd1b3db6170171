"""What comes after a fork: how long everything will run, and who else will come. The same for every policy.

Nobody knows the future, so it is drawn: run times from the quantiles of what ran before, by seed and job, and arrivals
from what arrived lately, in the same order and rhythm. Two policies with the same seed meet the same future.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.job import JobKind
from headgate.core.predict import UNKNOWN_RUN
from headgate.core.restore import Standing
from headgate.sim.cluster import Cluster, Delays
from headgate.sim.forking import Fork, ForkedJob, Recent
from headgate.sim.resuming import Begin, Begun
from headgate.sim.whatif import Changes
from headgate.sim.workloads.model import SimJob

Arrivals = Literal["recent", "none"]
MOST_ARRIVING = 100_000


class Future(msgspec.Struct, frozen=True):
    """A world to come: where, what is there, and who arrives."""

    cluster: Cluster
    begin: Begin
    arriving: tuple[SimJob, ...]


def future(
    fork: Fork, horizon: int, *, arrivals: Arrivals = "none", seed: int = 0, changes: Changes | None = None
) -> Future:
    """The next `horizon` milliseconds, under changes if there are any."""
    if horizon <= 0:
        raise InvalidInput("must be greater than zero", field="horizon")
    changes = changes or Changes()
    cluster = changes.cluster(cluster_of(fork))
    draw = _Draw(fork.runs, seed)
    kept = {worker.id for worker in cluster.workers}
    begin = Begin(
        fork.at, fork.epoch, fork.seq, fork.tokens,
        tuple(_begun(job, fork.at, draw) for job in fork.jobs), fork.tenants, fork.open_workers,
        tuple(w.spec.id for w in fork.workers if w.status != "ready" and w.spec.id in kept),
        tuple((fork.at + Delays().load_model, w.spec) for w in fork.workers if w.status == "starting"),
    )  # fmt: skip
    coming = _arriving(fork, horizon, draw, seed, changes.load) if arrivals == "recent" else ()
    return Future(cluster, begin, coming)


def cluster_of(fork: Fork) -> Cluster:
    """Workers, pools, tenants and capacity as they are. A worker that pulls is taken to ask whenever it has room."""
    specs = [w.spec for w in fork.workers if w.status == "ready" or (w.held and w.status != "starting")]
    return Cluster(
        msgspec.structs.replace(fork.settings, fixed_busy=min(10.0, fork.busy)),
        tuple(msgspec.structs.replace(spec, pull=False) for spec in specs),
        fork.pools,
        fork.models,
        tuple(used.spec for used in fork.tenants if used.declared),
    )


def _begun(job: ForkedJob, now: int, draw: _Draw) -> Begun:
    kind, lease = job.spec.kind, job.lease
    standing = Standing(kind, job.job_class, job.attempt, job.not_before, job.queued_at)
    if lease is None or lease.started_at is None:
        run = left = draw.run(kind, job.id)
    else:
        passed = max(0, now - lease.started_at)
        left = draw.left(kind, job.id, passed)
        run = passed + left
    return Begun(SimJob(job.id, job.created_at, run, job.spec), job.seq, standing, lease, left)


class _Draw:
    """Run times by seed and job."""

    def __init__(self, runs: dict[str, tuple[float, ...]], seed: int) -> None:
        self._runs = runs
        self._seed = seed

    def run(self, kind: JobKind, job_id: str) -> int:
        """How long a job that has not begun will run."""
        seen = self._runs.get(kind.type)
        if seen is None and kind.estimated_duration is not None:
            return self._limited(kind.estimated_duration, kind)
        values = seen or self._runs.get("") or (UNKNOWN_RUN,)
        return self._limited(values[int(self._chance(job_id) * len(values))], kind)

    def left(self, kind: JobKind, job_id: str, passed: int) -> int:
        """How long a job goes on that has run so long and not ended."""
        seen, said = self._runs.get(kind.type), kind.estimated_duration
        if seen is None and said is not None:
            return self._limited(said - passed if said > passed else passed * 0.1, kind, passed)
        longer = [value for value in seen or self._runs.get("") or (UNKNOWN_RUN,) if value > passed]
        if not longer:  # longer than anything seen: what has lasted long tends to last
            return self._limited(passed, kind, passed)
        return self._limited(longer[int(self._chance(job_id) * len(longer))] - passed, kind, passed)

    def _chance(self, job_id: str) -> float:
        return random.Random(f"{self._seed}/{job_id}/run").random()

    @staticmethod
    def _limited(value: float, kind: JobKind, passed: int = 0) -> int:
        limit = value if kind.timeout is None else max(1, kind.timeout - passed)
        return max(1, round(min(value, limit)))


def _arriving(fork: Fork, horizon: int, draw: _Draw, seed: int, load: float) -> tuple[SimJob, ...]:
    """What arrived lately arrives again, over and over until the horizon; another seed begins elsewhere in it."""
    if load <= 0:
        raise InvalidInput("must be greater than zero", field="load")
    recent = fork.recent
    if not recent:
        return ()
    begin = min(fork.recent_since or recent[0].at, recent[0].at)
    span = max(1, fork.at - begin)
    if horizon / span * load * len(recent) > MOST_ARRIVING:
        text = f"would bring more than {MOST_ARRIVING:,} jobs, as many as came of late: look less far ahead"
        raise InvalidInput(text, field="horizon")
    turn = 0 if seed == 0 else random.Random(f"{seed}/arrivals").randrange(span)
    offsets = sorted(((job.at - begin - turn) % span, n) for n, job in enumerate(recent))
    return tuple(_again(recent, offsets, span / load, horizon, fork.at, draw, load))


def _again(
    recent: Sequence[Recent], offsets: list[tuple[int, int]], span: float, horizon: int, now: int, draw: _Draw,
    load: float,
) -> list[SimJob]:  # fmt: skip
    made: list[SimJob] = []
    begins = 0.0
    while begins < horizon:
        for offset, n in offsets:
            at = now + 1 + round(begins + offset / load)
            if at > now + horizon:
                return made
            made.append(_coming(recent[n], at, f"next-{len(made) + 1}", draw))
        begins += span
    return made


def _coming(was: Recent, at: int, name: str, draw: _Draw) -> SimJob:
    by = at - was.at
    spec = msgspec.structs.replace(
        was.spec,
        deadline=None if was.spec.deadline is None else was.spec.deadline + by,
        not_before=None if was.spec.not_before is None else was.spec.not_before + by,
    )
    return SimJob(name, at, was.run if was.run is not None else draw.run(spec.kind, name), spec)
