"""What if: twice the machines, one pool less, half the load. The jobs stay what they are, so runs can be paired."""

from __future__ import annotations

import math

import msgspec

from headgate.core.cluster import PoolReport, WorkerSpec
from headgate.core.errors import InvalidInput
from headgate.sim.cluster import Cluster
from headgate.sim.workloads.model import SimJob, Workload

_MOST_SLOTS = 100_000
_LARGEST = 1_000
"""The machine, or the load, may become so many times as large, or as small."""


class Changes(msgspec.Struct, frozen=True):
    """What is different, all of it at once: first the pools that go, then the size, then the load."""

    scale: float = 1.0
    """So many times the units, workers and GPUs."""
    without_pools: tuple[str, ...] = ()
    load: float = 1.0
    """Jobs arrive so many times as fast."""

    def cluster(self, cluster: Cluster) -> Cluster:
        """The cluster as it would be."""
        for pool in self.without_pools:
            cluster = without_pool(cluster, pool)
        return cluster if self.scale == 1.0 else scaled(cluster, self.scale)

    def workload(self, workload: Workload) -> Workload:
        """The jobs as they would come."""
        return workload if self.load == 1.0 else with_load(workload, self.load)

    def words(self) -> str:
        """All of it in a few words; nothing where nothing changes."""
        parts = [f"without pool {pool}" for pool in self.without_pools]
        parts += [f"{self.scale:g} times the machines"] if self.scale != 1.0 else []
        parts += [f"{self.load:g} times the load"] if self.load != 1.0 else []
        return ", ".join(parts)


def _check(factor: float, field: str) -> None:
    if not 1 / _LARGEST <= factor <= _LARGEST:  # nor is NaN
        raise InvalidInput(f"must be between {1 / _LARGEST:g} and {_LARGEST:,}", field=field)


def scaled(cluster: Cluster, factor: float) -> Cluster:
    """So many times the units, workers and GPUs. A single worker grows; several become more or fewer of the same."""
    _check(factor, "scale")
    settings = msgspec.structs.replace(
        cluster.settings, total_units=max(1, round(cluster.settings.total_units * factor))
    )
    pools = tuple(_scaled_pool(pool, factor) for pool in cluster.pools)
    return msgspec.structs.replace(
        cluster, settings=settings, workers=_scaled_workers(cluster.workers, factor), pools=pools
    )


def _scaled_workers(workers: tuple[WorkerSpec, ...], factor: float) -> tuple[WorkerSpec, ...]:
    if len(workers) == 1:
        only = workers[0]
        amounts = tuple((name, type(value)(value * factor)) for name, value in only.resources)
        slots = min(_MOST_SLOTS, max(1, round(only.slots * factor)))
        return (msgspec.structs.replace(only, slots=slots, resources=amounts),)
    wanted = round(len(workers) * factor)
    copies = math.ceil(wanted / len(workers)) if workers else 0
    every = [
        worker if copy == 0 else msgspec.structs.replace(worker, id=f"{worker.id}+{copy}")
        for copy in range(copies)
        for worker in workers
    ]
    return tuple(every[:wanted])


def _scaled_pool(pool: PoolReport, factor: float) -> PoolReport:
    count = round(len(pool.gpus) * factor)
    gpus = tuple(
        msgspec.structs.replace(pool.gpus[n % len(pool.gpus)], id=f"{pool.gpus[n % len(pool.gpus)].id}+{n}")
        if n >= len(pool.gpus)
        else pool.gpus[n]
        for n in range(count)
    )
    units = None if pool.units is None else round(pool.units * factor)
    return msgspec.structs.replace(pool, gpus=gpus, units=units)


def without_pool(cluster: Cluster, pool: str) -> Cluster:
    """The cluster without a pool and its workers; its share of the units goes with its slots."""
    if pool not in {worker.pool for worker in cluster.workers} | {report.id for report in cluster.pools}:
        raise InvalidInput(f"there is no pool {pool!r}", field="pool")
    left = tuple(worker for worker in cluster.workers if worker.pool != pool)
    return msgspec.structs.replace(
        cluster, workers=left, pools=tuple(report for report in cluster.pools if report.id != pool)
    )


def with_load(workload: Workload, factor: float) -> Workload:
    """The same jobs, arriving `factor` times as fast: 0.5 is half the load."""
    _check(factor, "load")
    start = workload.jobs[0].at if workload.jobs else 0
    jobs = [_moved(job, start + round((job.at - start) / factor)) for job in workload.jobs]
    return msgspec.structs.replace(workload, jobs=jobs, name=f"{workload.name} x{factor:g}")


def _moved(job: SimJob, at: int) -> SimJob:
    spec, by = job.spec, at - job.at
    if spec.deadline is not None or spec.not_before is not None:
        spec = msgspec.structs.replace(
            spec,
            deadline=None if spec.deadline is None else spec.deadline + by,
            not_before=None if spec.not_before is None else spec.not_before + by,
        )
    return msgspec.structs.replace(job, at=at, spec=spec)
