"""The simulated cluster: workers, pools with their GPUs, models, tenants, and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.core.cluster import DEFAULT_POOL, Gpu, ModelSpec, PoolReport, WorkerSpec
from headgate.core.errors import InvalidInput
from headgate.core.settings import Settings
from headgate.core.tenants import TenantSpec
from headgate.sim.workloads.model import Workload

FOREVER = 2**50
"""Longer than any simulation: simulated workers are never silent, so nothing waits for a sign of life."""
_MOST_SLOTS = 100_000


class Outage(msgspec.Struct, frozen=True):
    """A worker is gone for a while; what it ran is lost."""

    worker: str
    at: int
    lasts: int


class Faults(msgspec.Struct, frozen=True):
    """What goes wrong. Chances are drawn by seed and job, so that two policies meet the same misfortune."""

    job_failure: float = 0.0
    """The chance of an attempt to fail, at a random point of its run."""
    worker_mtbf: int = 0
    """Mean time between two failures of a worker; 0: they never fail."""
    worker_repair: int = 600_000
    """Mean time until it is back."""
    outages: tuple[Outage, ...] = ()


class Delays(msgspec.Struct, frozen=True):
    """How long things take that are instantaneous in no real cluster."""

    start: int = 0
    """From the grant of a lease to the start of the work."""
    let_go: int = 1_000
    """From the request to make room to the release; beyond the grace period the lease is fenced off. At least 1."""
    detect: int = 30_000
    """From the death of a worker to its leases' end: the TTL of a lease."""
    load_model: int = 20_000
    """From the wish for a worker to its readiness."""
    load_cached: int = 5_000
    """The same where the pool has the model cached."""
    unload: int = 1_000
    """From the eviction of a worker to its memory being free."""


class Cluster(msgspec.Struct, frozen=True):
    """Where a workload runs."""

    settings: Settings
    workers: tuple[WorkerSpec, ...] = ()
    pools: tuple[PoolReport, ...] = ()
    models: tuple[ModelSpec, ...] = ()
    tenants: tuple[TenantSpec, ...] = ()
    load: tuple[tuple[int, float], ...] = ()
    """(time, busy rating 0..10) steps; none: the cluster is idle but for these jobs."""
    model_slots: int = 4
    """Slots of a worker that is started for a model."""
    faults: Faults = Faults()
    delays: Delays = Delays()


def sim_settings(**changes: object) -> Settings:
    """Settings for a world of its own: nobody falls silent, the machine is idle, jobs do not age unless told to."""
    quiet = {
        "fixed_busy": 0.0,
        "lease_ttl": FOREVER,
        "worker_silence": FOREVER,
        "pool_degraded": FOREVER,
        "pool_offline": FOREVER,
        "ageing": 0,
        "retain_finished": 64,
    }
    return Settings(**{**quiet, **changes})  # type: ignore[arg-type]  # names and types are checked by the core


def simulated(settings: Settings, *, loaded: bool = False) -> Settings:
    """Live settings as a world of its own needs them: its workers send no signs of life."""
    changes: dict[str, object] = {
        "lease_ttl": FOREVER,
        "worker_silence": FOREVER,
        "pool_degraded": FOREVER,
        "pool_offline": FOREVER,
        "retain_finished": min(settings.retain_finished, 64),
    }
    if loaded:
        changes |= {"fixed_busy": None, "poll": FOREVER, "stale_polls": 1, "required_sources": ("load",)}
    return msgspec.structs.replace(settings, **changes)


def machine(processors: int, **changes: object) -> Cluster:
    """A rigid parallel machine: one worker, and a unit for every processor."""
    if processors < 1:
        raise InvalidInput("must be at least 1", field="processors")
    slots = min(processors, _MOST_SLOTS)
    settings = sim_settings(total_units=processors, preemption=False, **changes)
    return Cluster(settings, (WorkerSpec("machine", slots=slots),))


def workers(count: int, *, slots: int = 1, resources: Sequence[tuple[str, int | float]] = ()) -> Cluster:
    """Equal workers, each with its slots and resources; units are no limit."""
    if count < 1:
        raise InvalidInput("must be at least 1", field="count")
    width = len(str(count - 1))
    specs = (WorkerSpec(f"w{n:0{width}}", slots=slots, resources=tuple(sorted(resources))) for n in range(count))
    return Cluster(sim_settings(total_units=10**9), tuple(specs))


def gpu_pool(name: str, gpus: int, vram: int, *, units: int | None = None) -> PoolReport:
    """A pool with equal GPUs, for clusters whose workers are started by the policy."""
    return PoolReport(name, units=units, gpus=tuple(Gpu(f"{name}-g{n}", vram_total=vram) for n in range(gpus)))


def cluster_for(workload: Workload) -> Cluster:
    """The cluster that the source of a workload names; one worker with a slot for every job where it names none."""
    if workload.nodes:
        specs = tuple(
            WorkerSpec(node.id, DEFAULT_POOL, _MOST_SLOTS, resources=node.resources, labels=node.labels)
            for node in workload.nodes
        )
        return Cluster(sim_settings(total_units=10**9), specs)
    if workload.processors is not None:
        return machine(workload.processors)
    return Cluster(sim_settings(total_units=10**9), (WorkerSpec("unlimited", slots=_MOST_SLOTS),))
