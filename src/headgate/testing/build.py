"""Builders that read like the domain: say what matters in the test, leave the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.core.cluster import DEFAULT_POOL, Gpu, ModelSpec, PoolReport, WorkerSpec
from headgate.core.job import JobSpec
from headgate.core.job_input import parse_job
from headgate.core.quantities import resources, size
from headgate.core.tenants import TenantSpec


def job(name: str = "job", *, after: Iterable[str] = (), **fields: Any) -> JobSpec:
    """A job as a caller would write it (`units=20, priority="high"`); `after` names its dependencies."""
    given = {"name": name, **fields}
    if dependencies := tuple(after):
        given["dependencies"] = dependencies
    return parse_job(given)


def external(name: str = "job", **fields: Any) -> JobSpec:
    """A job whose submitter does the work itself."""
    return job(name, run={"kind": "external"}, **fields)


def worker(
    name: str,
    *,
    slots: int = 1,
    pool: str = DEFAULT_POOL,
    prefetch: int = 0,
    model: str | None = None,
    gpus: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    types: Iterable[str] | None = None,
    pull: bool = False,
    handlers: bool = True,
    **offers: Any,
) -> WorkerSpec:
    """A worker; further names are the resources it offers (`memory="8GB", cpu=4`)."""
    return WorkerSpec(
        name,
        pool,
        slots,
        prefetch,
        resources(offers, "resources"),
        model,
        tuple(gpus),
        tuple(sorted((labels or {}).items())),
        None if types is None else tuple(types),
        pull,
        handlers,
    )


def gpu(name: str, vram: str = "24GB", allocated: str = "0") -> Gpu:
    """A GPU with its memory, and how much of that is taken."""
    return Gpu(name, vram_total=int(size(vram, "vram")), vram_allocated=int(size(allocated, "allocated")))


def pool(
    name: str,
    *,
    busy: float | None = None,
    units: int | None = None,
    gpus: Iterable[Gpu] = (),
    workers: Iterable[str] = (),
    **limits: Any,
) -> PoolReport:
    """A pool's report; further names are what its machine has of each resource."""
    return PoolReport(
        name,
        busy=busy,
        units=units,
        resources=resources(limits, "resources"),
        gpus=tuple(gpus),
        workers=tuple(workers),
    )


def tenant(
    name: str,
    *,
    weight: float = 1.0,
    units: int | None = None,
    leases: int | None = None,
    queued: int | None = None,
    **most: Any,
) -> TenantSpec:
    """A tenant with its weight and quotas; further names are quotas on resources."""
    return TenantSpec(name, weight, units, leases, queued, resources(most, "max_resources"))


def model(name: str, vram: str = "0", aliases: Iterable[str] = ()) -> ModelSpec:
    """An entry of the model catalog."""
    return ModelSpec(name, int(size(vram, "vram")), tuple(aliases))
