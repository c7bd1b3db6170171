"""One simulation from a workload, a policy and a cluster to its results."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter  # noqa: TID251  # for `measured` alone, which no decision and no result depends on
from typing import TextIO

from headgate.core.ordering import Policy
from headgate.policy.verdict import HostSettings
from headgate.sim.cluster import Cluster, cluster_for
from headgate.sim.policies import OpenPolicy, open_policy
from headgate.sim.results import Collector, Measured, Results
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
) -> Results:
    """Simulate. `keep=False` keeps no job in memory: figures are close, not exact; `table` gets a CSV as it goes."""
    with open_policy(policy, host=host) as opened:
        return run_open(
            workload, opened, cluster or cluster_for(workload), seed=seed, ties=ties, keep=keep, table=table
        )


def run_open(
    workload: Workload,
    opened: OpenPolicy,
    cluster: Cluster,
    *,
    seed: int = 0,
    ties: Ties = "ends-first",
    keep: bool = True,
    table: TextIO | None = None,
) -> Results:
    """The same with a policy that is open already."""
    collector = Collector(tick=workload.tick, total_units=_units(cluster), keep=keep, table=table)
    span = workload.jobs[-1].at - workload.jobs[0].at if workload.jobs else 0
    world = World(
        cluster, workload.jobs, opened.policy, seed=seed, ties=ties, on_job=collector.on_job,
        on_grant=collector.grants.append if keep else None,
        on_sample=collector.series.append if keep else None, sample_every=max(1, span // _LOOKS),
    )  # fmt: skip
    begun = perf_counter()
    counts = world.run()
    taken = perf_counter() - begun
    counts.policy_failures = dict(sorted(opened.failures.items()))
    results = collector.results(opened.name, workload.name, seed, counts)
    results.measured = Measured(taken, opened.took_us / 1e6, opened.decisions)
    return results


def _units(cluster: Cluster) -> int:
    """What all of it is: units where they bind, otherwise the slots of the workers."""
    slots = sum(worker.slots for worker in cluster.workers)
    return min(cluster.settings.total_units, slots) if slots else cluster.settings.total_units
