"""Comparing policies: paired on the same jobs and seeds, with intervals, and the first decision in which they part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec

from headgate.core.errors import InvalidInput
from headgate.policy.statistics import Interval, block_bootstrap
from headgate.sim.cluster import Cluster
from headgate.sim.pulse import Watch
from headgate.sim.records import Grant, JobRecord
from headgate.sim.results import Results, figures
from headgate.sim.running import run
from headgate.sim.workloads.model import Workload
from headgate.sim.world import Ties

METRICS = ("wait", "turnaround", "slowdown")


class Divergence(msgspec.Struct, frozen=True):
    """The first decision in which two runs differ. Times are in units of the workload."""

    seed: int
    number: int
    """How many jobs they started alike before it, plus one."""
    first: Grant | None = None
    second: Grant | None = None
    first_elsewhere: int | None = None
    """When the job that the first run started was started by the second, if ever."""
    second_elsewhere: int | None = None


class Difference(msgspec.Struct, frozen=True):
    """A policy against the baseline: mean of the paired differences, per job; below zero is better."""

    policy: str
    intervals: dict[str, Interval]
    better: int
    worse: int
    """Jobs that wait less, and jobs that wait more, by a second and more."""
    unpaired: int
    """Jobs that did not start under both."""
    divergence: Divergence | None


class Comparison(msgspec.Struct):
    """Runs of several policies on the same workloads; the first policy is the baseline."""

    policies: list[str]
    runs: dict[str, list[Results]]
    differences: list[Difference]


def compare(
    workload: Workload | Callable[[int], Workload],
    policies: Sequence[str | Path],
    cluster: Cluster | None = None,
    *,
    seeds: Sequence[int] = (0,),
    ties: Ties = "ends-first",
    watch: Watch | None = None,
    limit_s: float | None = None,
) -> Comparison:
    """Run every policy on the same jobs. With a function, each seed has a workload of its own.

    `watch` is told how much of all runs is done; each run may take `limit_s` seconds and is cut there.
    """
    if len(policies) < 2:
        raise InvalidInput("at least two are needed to compare", field="policies")
    if not seeds:
        raise InvalidInput("at least one is needed", field="seeds")
    rows: list[list[Results]] = [[] for _ in policies]
    parts = _parts(watch, len(seeds) * len(policies))
    for seed in seeds:
        given = workload if isinstance(workload, Workload) else workload(seed)
        for row, policy in zip(rows, policies, strict=True):
            row.append(run(given, policy, cluster, seed=seed, ties=ties, watch=next(parts), limit_s=limit_s))
    runs = _named(rows)
    names = list(runs)
    return Comparison(names, runs, [difference(runs[names[0]], runs[name]) for name in names[1:]])


def _parts(watch: Watch | None, count: int) -> Iterator[Watch | None]:
    """Whoever watches the whole, as one who watches each part of it."""
    for place in range(count):
        yield None if watch is None else _Part(watch, place, count)


class _Part(msgspec.Struct, frozen=True):
    watch: Watch
    place: int
    count: int

    def __call__(self, share: float) -> None:
        self.watch((self.place + share) / self.count)


def _named(rows: list[list[Results]]) -> dict[str, list[Results]]:
    """Runs by policy; two of the same name are told apart by their place."""
    runs: dict[str, list[Results]] = {}
    for place, row in enumerate(rows):
        name = row[0].policy if row[0].policy not in runs else f"{row[0].policy} ({place})"
        for results in row:
            results.policy = name
        runs[name] = row
    return runs


def difference(baseline: Sequence[Results], other: Sequence[Results]) -> Difference:
    """Pair the jobs of runs with equal seeds."""
    paired: dict[str, list[float]] = {metric: [] for metric in METRICS}
    unpaired = 0
    for left, right in zip(baseline, other, strict=True):
        by_id = {record.id: record for record in right.records if record.started is not None}
        started = [record for record in left.records if record.started is not None]
        for record in sorted(started, key=_submission):
            match = by_id.pop(record.id, None)
            if match is None:
                unpaired += 1
                continue
            pair = zip(METRICS, figures(record, left.tick), figures(match, right.tick), strict=True)
            for metric, before, after in pair:
                paired[metric].append(after - before)
        unpaired += len(by_id)
    return Difference(
        other[0].policy,
        {metric: block_bootstrap(values) for metric, values in paired.items()},
        sum(value <= -1 for value in paired["wait"]),
        sum(value >= 1 for value in paired["wait"]),
        unpaired,
        next((found for pair in zip(baseline, other, strict=True) if (found := first_divergence(*pair))), None),
    )


def _submission(record: JobRecord) -> tuple[int, str]:
    return record.submitted, record.id


def first_divergence(left: Results, right: Results) -> Divergence | None:
    """Where two runs part: the first grant that is not the same in both, as far as both were simulated."""
    end = min((run.cut.at for run in (left, right) if run.cut is not None), default=math.inf)
    return divergence_of(left.seed, *([grant for grant in run.grants if grant.at < end] for run in (left, right)))


def divergence_of(seed: int, left: Sequence[Grant], right: Sequence[Grant]) -> Divergence | None:
    """The same of two lists of grants."""
    for number, (first, second) in enumerate(zip_longest(left, right), 1):
        if first is None or second is None or first[:3] != second[:3]:
            return Divergence(seed, number, first, second, _granted_at(right, first), _granted_at(left, second))
    return None


def _granted_at(grants: Sequence[Grant], grant: Grant | None) -> int | None:
    if grant is None:
        return None
    return next((other.at for other in grants if other.job_id == grant.job_id), None)
