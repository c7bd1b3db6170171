"""One simulation from a workload, a policy and a cluster to its results."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter  # noqa: TID251  # for `measured` alone, which no decision and no result depends on
from typing import TextIO

from headgate.core.ordering import Policy
from headgate.policy.verdict import HostSettings
from headgate.sim.cluster import Cluster, cluster_for
from headgate.sim.policies import OpenPolicy, open_policy
from headgate.sim.pulse import Pulse, Watch
from headgate.sim.results import Collector, Cut, Measured, Results
from headgate.sim.workloads.model import Workload
from headgate.sim.world import Ties, World

_LOOKS = 500
"""How many samples the time series has, about."""


def run(
    workload: Workload,
    policy: str | Path | Policy = "platform",
    cluster: Cluster | None = None,
    *,
    seed: int = 0,
    ties: Ties = "ends-first",
    keep: bool = True,
    table: TextIO | None = None,
    host: HostSettings | None = None,
    watch: Watch | None = None,
    limit_s: float | None = None,
) -> Results:
    """Simulate. `keep=False` keeps no job in memory: figures are close, not exact; `table` gets a CSV as it goes.

    `watch` is told now and then what share of the jobs has ended. A run that takes longer than `limit_s` seconds is
    stopped where it stands; its results say so in `cut`.
    """
    with open_policy(policy, host=host) as opened:
        return run_open(
            workload, opened, cluster or cluster_for(workload), seed=seed, ties=ties, keep=keep, table=table,
            watch=watch, limit_s=limit_s,
        )  # fmt: skip


def run_open(
    workload: Workload,
    opened: OpenPolicy,
    cluster: Cluster,
    *,
    seed: int = 0,
    ties: Ties = "ends-first",
    keep: bool = True,
    table: TextIO | None = None,
    watch: Watch | None = None,
    limit_s: float | None = None,
) -> Results:
    """The same with a policy that is open already."""
    collector = Collector(tick=workload.tick, total_units=_units(cluster), keep=keep, table=table)
    span = workload.jobs[-1].at - workload.jobs[0].at if workload.jobs else 0
    world = World(
        cluster, workload.jobs, opened.policy, seed=seed, ties=ties, on_job=collector.on_job,
        on_grant=collector.grants.append if keep else None,
        on_sample=collector.series.append if keep else None, sample_every=max(1, span // _LOOKS),
    )  # fmt: skip
    jobs = max(1, len(workload))
    watched = watch is not None or limit_s is not None
    pulse = Pulse(lambda: collector.ended / jobs, watch, limit_s) if watched else None
    begun = perf_counter()
    world.start()
    left = world.advance(go_on=pulse)
    counts = world.counts if left else world.finish()
    taken = perf_counter() - begun
    counts.policy_failures = dict(sorted(opened.failures.items()))
    counts.first_failure = opened.first_failure
    results = collector.results(opened.name, workload.name, seed, counts)
    if left:
        results.cut = Cut(world.now, world.under_way, len(workload) - counts.submitted - counts.refused_submissions)
    results.problems = workload.problems.summary().splitlines()
    results.measured = Measured(taken, opened.took_us / 1e6, opened.decisions)
    return results


def _units(cluster: Cluster) -> int:
    """What all of it is: units where they bind, otherwise the slots of the workers."""
    slots = sum(worker.slots for worker in cluster.workers)
    return min(cluster.settings.total_units, slots) if slots else cluster.settings.total_units
