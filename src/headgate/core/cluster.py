"""Workers, pools, GPUs and models: where work can run."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.core.capacity import bottleneck
from headgate.core.quantities import Amount, Resources

WorkerStatus = Literal["starting", "ready", "draining", "failed", "offline"]
PoolStatus = Literal["online", "degraded", "offline"]
DEFAULT_POOL = "default"


class WorkerSpec(msgspec.Struct, frozen=True, array_like=True):
    """What a worker says of itself when it registers."""

    id: str
    pool: str = DEFAULT_POOL
    slots: int = 1
    prefetch: int = 0
    resources: Resources = ()
    model_ref: str | None = None
    gpu_ids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    types: tuple[str, ...] | None = None
    """The job types it has handlers for; none given: any."""
    pull: bool = False
    """A pulling worker is given work only while it has an open claim."""
    handlers: bool = True
    """Whether it has Python handlers by name; without any it runs commands, HTTP calls and import paths."""


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """One GPU as its pool reports it."""

    id: str
    name: str = ""
    vram_total: int = 0
    vram_allocated: int = 0
    utilization: float = 0.0
    temperature: float | None = None

    @property
    def vram_free(self) -> int:
        """What is not allocated."""
        return max(0, self.vram_total - self.vram_allocated)


class PoolReport(msgspec.Struct, frozen=True, array_like=True):
    """A pool's heartbeat: its machine's load, its GPUs, what it holds."""

    id: str
    node: str = ""
    busy: float | None = None
    """The machine's own busy rating; none: only the global rating counts."""
    units: int | None = None
    """Capacity units of this machine; none: only the global units count."""
    resources: Resources = ()
    gpus: tuple[Gpu, ...] = ()
    cached_models: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    """Ids of the workers alive on it: the report is a sign of life for each."""
    reasons: tuple[str, ...] = ()
    """Why the rating is what it is, where a signal could not be measured."""
    signals: tuple[tuple[str, float], ...] = ()
    """What each signal of the machine is rated."""

    @property
    def bottleneck(self) -> str | None:
        """The signal that is rated highest, in words."""
        return bottleneck(self.signals)


class ModelSpec(msgspec.Struct, frozen=True, array_like=True):
    """An entry of the model catalog."""

    id: str
    vram: int = 0
    aliases: tuple[str, ...] = ()
    resources: Resources = ()


class Worker:
    """A worker at run time."""

    __slots__ = (
        "claims",
        "completed",
        "free",
        "held",
        "id",
        "labels",
        "last_seen",
        "last_used",
        "leases",
        "limit",
        "registered_at",
        "running",
        "spec",
        "status",
        "types",
    )

    def __init__(self, spec: WorkerSpec, status: WorkerStatus, at: int) -> None:
        self.status: WorkerStatus = status
        self.held = False
        """Whether it gets no work, however often it comes back, until somebody undrains it."""
        self.registered_at = at
        self.last_seen = at
        self.last_used = 0
        self.completed = 0
        self.running = 0
        self.claims = 0
        self.leases: dict[str, None] = {}
        self.free: dict[str, Amount] = {}
        self.describe(spec)

    def describe(self, spec: WorkerSpec) -> None:
        """Take over what the worker says of itself; what its leases hold stays subtracted by the caller."""
        self.spec = spec
        self.id = spec.id
        self.labels = dict(spec.labels)
        self.types = None if spec.types is None else frozenset(spec.types)
        self.limit = spec.slots + spec.prefetch

    @property
    def slots_free(self) -> int:
        """How many further leases it may hold."""
        return self.limit - len(self.leases)

    @property
    def shown_status(self) -> str:
        """The status as reported: a ready worker without room is `busy`."""
        return "busy" if self.status == "ready" and self.slots_free <= 0 else self.status


class Pool:
    """A pool at run time: a machine, or a part of one, whose workers share its load."""

    __slots__ = ("last_report", "last_start", "leased_units", "report", "status", "used")

    def __init__(self, report: PoolReport, at: int) -> None:
        self.report = report
        self.status: PoolStatus = "online"
        self.last_report: int | None = at
        self.last_start: int | None = None
        self.leased_units = 0
        self.used: dict[str, Amount] = {}

    @property
    def shut(self) -> bool:
        """Whether its machine is too busy for anything; a rating that is old or cannot be believed counts as 10."""
        busy = self.report.busy
        return busy is not None and not (0 <= busy < 10 and self.status == "online")

    def silent(self, now: int, limit: int) -> bool:
        """Whether a machine that rates itself has not done so for too long: its rating is worth nothing."""
        return self.report.busy is not None and self.last_report is not None and now - self.last_report > limit

    def usable_units(self) -> int | None:
        """Units this machine can hold at its present load, or none if it sets no limit of its own."""
        if self.report.units is None:
            return None
        if self.shut:
            return 0
        return int(self.report.units * (10 - (self.report.busy or 0.0)) / 10 + 1e-9)
