"""Several worlds side by side: they go on together, one frame at a time, so that whoever watches sees them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from headgate.core.errors import InvalidInput
from headgate.sim.cluster import Cluster
from headgate.sim.policies import OpenPolicy
from headgate.sim.records import JobRecord, Sample
from headgate.sim.results import Collector, Results
from headgate.sim.resuming import Begin
from headgate.sim.workloads.model import SimJob
from headgate.sim.world import GoOn, World

_LOOKS = 500
MANY = 500
"""After so many frames of a simulation whose end is not known, they come half as often."""
MOST_STARTS = 50
"""Starts told of in one frame; more are counted."""


class Start(msgspec.Struct, frozen=True):
    """A job that started since the frame before."""

    job_id: str
    worker_id: str
    at: int


class Seen(msgspec.Struct, frozen=True):
    """One world at the time of a frame."""

    queued: int
    running: int
    leased_units: int
    usable_units: int
    ended: int
    """Jobs that have ended since the beginning."""
    starts: list[Start]
    more_starts: int = 0


class Frame(msgspec.Struct, frozen=True, tag="frame", tag_field="type"):
    """All worlds at one time, in milliseconds of the simulation."""

    number: int
    at: int
    seen: list[Seen]


class Lane:
    """One policy in its world."""

    def __init__(
        self, opened: OpenPolicy, cluster: Cluster, jobs: Sequence[SimJob], *, tick: float = 0.001, seed: int = 0,
        begin: Begin | None = None, span: int = 0,
    ) -> None:  # fmt: skip
        self.opened, self.seed = opened, seed
        self.slots = sum(worker.slots for worker in cluster.workers)
        self.total_units = cluster.settings.total_units
        self.collector = Collector(tick=tick, total_units=max(1, min(self.total_units, self.slots or 10**9)))
        self.planned = {job.id: job.run for job in jobs} | ({b.id: b.job.run for b in begin.jobs} if begin else {})
        """How long each job runs if nothing happens to it."""
        self.fixed = {begun.id for begun in begin.jobs if begun.lease is not None} if begin else set[str]()
        """Jobs that held a lease when the world began: no policy decided about them in it."""
        self._told = 0
        self.world = World(
            cluster, jobs, opened.policy, seed=seed, on_job=self.collector.on_job,
            on_grant=self.collector.grants.append, on_sample=self.collector.series.append,
            sample_every=max(1, span // _LOOKS), begin=begin,
        )  # fmt: skip

    @property
    def records(self) -> list[JobRecord]:
        """Jobs that ended."""
        return self.collector.records

    def seen(self) -> Seen:
        """How it stands, and what started since it was last asked."""
        state, grants = self.world.state, self.collector.grants
        fresh, self._told = grants[self._told :], len(grants)
        starts = [Start(grant.job_id, grant.worker_id, grant.at) for grant in fresh[:MOST_STARTS]]
        usable = state.usable_units(self.world.now)
        ended = len(self.collector.records)
        return Seen(
            state.depth, len(state.leases), state.leased_units, usable, ended, starts, max(0, len(fresh) - MOST_STARTS)
        )

    def results(self, workload: str) -> Results:
        """The sum of it."""
        counts = self.world.counts
        counts.policy_failures = dict(sorted(self.opened.failures.items()))
        found = self.collector.results(self.opened.name, workload, self.seed, counts)
        found.measured.decisions = self.opened.decisions
        found.measured.policy_seconds = self.opened.took_us / 1e6
        return found

    def cut(self, at: int) -> None:
        """The end of what is looked at; what came of it later, in a world that was ahead of the others, is undone."""
        self.world.cut(max(at, self.world.now))
        collector = self.collector
        collector.records[:] = [_as_of(record, at) for record in self.records if record.submitted <= at]
        collector.grants[:] = [grant for grant in collector.grants if grant.at <= at]
        collector.series[:] = [sample for sample in collector.series if sample.at <= at]

    def used(self, until: int) -> float:
        """The share of what there is, in units or slots whichever is scarcer, that was in use on average."""
        series = self.collector.series
        if not series or until <= series[0].at:
            return 0.0
        ends = [sample.at for sample in series[1:]] + [until]
        busy = sum(self._share(sample) * max(0, end - sample.at) for sample, end in zip(series, ends, strict=True))
        return busy / (until - series[0].at)

    def _share(self, sample: Sample) -> float:
        units = sample.leased_units / self.total_units if self.total_units else 0.0
        return min(1.0, max(units, sample.running / self.slots if self.slots else 0.0))


def _as_of(record: JobRecord, at: int) -> JobRecord:
    """A job as it stood at a time."""
    if record.ended <= at:
        return record
    if record.started is None or record.started > at:
        return record._replace(started=None, ended=at, state="waiting", run=0)
    return record._replace(ended=at, state="running", run=min(record.run, at - record.started))


OnFrame = Callable[[Frame], object]


class Ended(NamedTuple):
    """When the last world ended, and whether all of them had to be stopped before their end."""

    at: int
    cut: bool = False


def together(
    lanes: Sequence[Lane], every: int, *, until: int | None = None, on_frame: OnFrame | None = None,
    go_on: GoOn | None = None,
) -> Ended:  # fmt: skip
    """Run all worlds to their end, or to `until`; tells a frame every so often.

    Where `go_on` says no, all of them are cut at the time that the slowest had reached.
    """
    if every < 1:
        raise InvalidInput("must be at least 1", field="every")
    for lane in lanes:
        lane.world.start()
    at, number = min(lane.world.now for lane in lanes), 0
    alive = list(lanes)
    while alive and (until is None or at < until):
        at = at + every if until is None else min(until, at + every)
        alive = [lane for lane in alive if lane.world.advance(at, go_on)]
        if go_on is not None and not go_on():
            return _cut(lanes, alive, at)
        number += 1
        if until is None and number % MANY == 0:  # it lasts longer than was thought
            every *= 2
        if on_frame is not None:
            on_frame(Frame(number, at, [lane.seen() for lane in lanes]))
    for lane in lanes:
        lane.world.finish() if until is None else lane.world.cut(until)
    return Ended(max(lane.world.now for lane in lanes))


def _cut(lanes: Sequence[Lane], alive: Sequence[Lane], at: int) -> Ended:
    """Whoever has nothing left to do counts as having come as far as anybody."""
    reached = min((lane.world.now for lane in alive), default=at)
    for lane in lanes:
        lane.cut(reached)
    return Ended(reached, cut=True)
