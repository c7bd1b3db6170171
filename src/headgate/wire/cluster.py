"""Workers, pools, tenants and models on the wire."""

from __future__ import annotations

from headgate.wire.base import Body, Out


class WorkerIn(Body, frozen=True):
    """A worker registers."""

    id: str
    pool: str = "default"
    slots: int = 1
    prefetch: int = 0
    resources: dict[str, float | str] = {}
    model_ref: str | None = None
    gpu_ids: list[str] = []
    labels: dict[str, str] = {}
    types: list[str] | None = None
    pull: bool = True
    """A worker on the stream is given work as it comes: it says false here."""
    handlers: bool = True
    """False: it has no Python handlers, and runs commands, HTTP calls and functions named by an import path."""


class WorkerOut(Out, frozen=True):
    """A worker as the engine sees it."""

    id: str
    pool: str
    status: str
    slots: int
    slots_free: int
    running: int
    prefetch: int = 0
    resources: dict[str, float] = {}
    resources_free: dict[str, float] = {}
    model_ref: str | None = None
    gpu_ids: list[str] = []
    labels: dict[str, str] = {}
    types: list[str] | None = None
    leases: list[str] = []
    completed: int = 0
    last_seen: float = 0.0
    pull: bool = True
    handlers: bool = True
    held: bool = False


class WorkersOut(Out, frozen=True):
    """All workers."""

    workers: list[WorkerOut]


class ReasonIn(Body, frozen=True):
    """Why a worker gets work again, or has to leave."""

    reason: str = ""


class DrainIn(ReasonIn, frozen=True):
    """Why a worker gets no further work, and whether it stays so when it registers anew, until it is undrained."""

    hold: bool = False


class GpuIn(Body, frozen=True):
    """One GPU of a pool's machine."""

    id: str
    name: str = ""
    vram_total: float | str = 0
    vram_allocated: float | str = 0
    utilization: float = 0.0
    temperature: float | None = None


class PoolIn(Body, frozen=True):
    """A pool's heartbeat: the load of its machine, its GPUs, its workers."""

    node: str = ""
    busy: float | None = None
    units: int | None = None
    resources: dict[str, float | str] = {}
    gpus: list[GpuIn] = []
    cached_models: list[str] = []
    workers: list[str] = []
    reasons: list[str] = []
    """Why a signal could not be measured."""
    signals: dict[str, float] = {}
    """What each signal is rated, 0 to 10."""


class GpuOut(Out, frozen=True):
    """One GPU."""

    id: str
    name: str
    vram_total: int
    vram_allocated: int
    vram_free: int
    utilization: float
    temperature: float | None = None


class WantedOut(Out, frozen=True):
    """A worker that a pool is asked to start: under this id, with this model, on these GPUs."""

    id: str
    model_ref: str | None = None
    gpu_ids: list[str] = []


class PoolOut(Out, frozen=True):
    """A pool as the engine sees it."""

    id: str
    status: str
    node: str = ""
    busy: float | None = None
    units: int | None = None
    usable_units: int | None = None
    leased_units: int = 0
    resources: dict[str, float] = {}
    resources_used: dict[str, float] = {}
    gpus: list[GpuOut] = []
    cached_models: list[str] = []
    workers: list[str] = []
    last_report: float | None = None
    reasons: list[str] = []
    signals: dict[str, float] = {}
    wanted: list[WantedOut] = []
    """Workers that a policy asked this pool to start and that have not come yet."""


class PoolsOut(Out, frozen=True):
    """All pools."""

    pools: list[PoolOut]


class TenantIn(Body, frozen=True):
    """Quotas and weight; a quota that is not given is unlimited."""

    weight: float = 1.0
    max_units: int | None = None
    max_leases: int | None = None
    max_queued: int | None = None
    max_resources: dict[str, float | str] = {}


class TenantOut(Out, frozen=True):
    """A tenant with what it may hold and what it holds."""

    id: str
    weight: float
    max_units: int | None = None
    max_leases: int | None = None
    max_queued: int | None = None
    max_resources: dict[str, float] = {}
    declared: bool = False
    queued: int = 0
    leases: int = 0
    leased_units: int = 0
    used: dict[str, float] = {}


class TenantsOut(Out, frozen=True):
    """All tenants."""

    tenants: list[TenantOut]


class ModelIn(Body, frozen=True):
    """An entry of the model catalog."""

    vram: float | str = 0
    aliases: list[str] = []
    resources: dict[str, float | str] = {}


class ModelOut(Out, frozen=True):
    """An entry of the model catalog."""

    id: str
    vram: int = 0
    aliases: list[str] = []
    resources: dict[str, float] = {}


class ModelsOut(Out, frozen=True):
    """The model catalog."""

    models: list[ModelOut]
