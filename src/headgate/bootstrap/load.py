"""Wiring of load: slots and pull schedulers on an engine in memory, samplers, pool agents, middleware."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.core.cluster import Gpu
from headgate.core.quantities import resources as amounts
from headgate.core.settings import Settings
from headgate.core.slots import OnRequest, slot_settings
from headgate.core.week import PROFILE, WeekLearner, decode_week
from headgate.engine.aio import AsyncEngine
from headgate.engine.local import Face
from headgate.engine.questions import GetDocuments, GetStatus
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.load.api import RECORDER
from headgate.load.cgroup import Cgroup
from headgate.load.detect import host_probes
from headgate.load.gpu import find_gpus
from headgate.load.health import HealthProbe, MonitorConfig
from headgate.load.middleware import WsgiApp, WsgiLoad
from headgate.load.monitor import ResourceMonitor
from headgate.load.pool_agent import PoolAgent
from headgate.load.sampler import WARM_UP, Sampler
from headgate.ports import Clock, Ids
from headgate.stores.memory import MemoryStore
from headgate.system import SystemChance, SystemClock, SystemIds, stopwatch
from headgate.worker.pull import PullScheduler
from headgate.worker.work_orders import PullConfig


def slot_engine(monitor: MonitorConfig, pull: PullConfig, clock: Clock) -> SharedEngine:
    """An engine in memory for slots and work orders, running."""
    settings = slot_settings(monitor.max_concurrent_slots, pull.stagger_delay_ms)
    return SharedEngine(Writer(MemoryStore(), OnRequest(), SystemChance(), settings), clock).start()


def resource_monitor(config: MonitorConfig | None = None) -> ResourceMonitor:
    """A resource monitor with an engine of its own: `start` it to have it look at the machine, `close` it at the end.

    Slots are given as they are asked for: only a pull scheduler staggers its starts.
    """
    slots, clock = (config or MonitorConfig()).check(), SystemClock()
    engine = slot_engine(slots, PullConfig(stagger_delay_ms=0), clock)
    return _monitor(engine, slots, clock, SystemIds(clock, SystemChance()))


def pull_scheduler(monitor: MonitorConfig | None = None, scheduler: PullConfig | None = None) -> PullScheduler:
    """A pull scheduler with its resource monitor (`.monitor`), on one engine in memory; `close` it at the end."""
    slots, pull = (monitor or MonitorConfig()).check(), (scheduler or PullConfig()).check()
    clock = SystemClock()
    engine = slot_engine(slots, pull, clock)
    ids = SystemIds(clock, SystemChance())
    return PullScheduler(_monitor(engine, slots, clock, ids), engine, clock, ids, pull)


def _monitor(engine: SharedEngine, slots: MonitorConfig, clock: Clock, ids: Ids) -> ResourceMonitor:
    return ResourceMonitor(engine, HealthProbe(clock, Cgroup()), clock, ids, slots, engine.stop)


def host_sampler(
    engine: Face | AsyncEngine,
    settings: Settings,
    clock: Clock,
    *,
    disk: str = "/",
    applications: bool = True,
    warm_up: int = WARM_UP,
) -> Sampler:
    """A sampler of this machine for an engine, wherever that lives; `start(engine)` it.

    It learns the week where the settings ask for it. `warm_up` is how long the first sample looks.
    """
    probes = host_probes(clock, disk=disk, gpus=_gpus())
    if applications:
        probes.append(RECORDER)
    learner = None
    if settings.time_of_day is not None and settings.time_of_day.learn:
        learner = WeekLearner(decode_week(_profile(engine)), settings.time_of_day.utc_offset)
    units = max(1, settings.total_units)
    held = lambda: _leased(engine) / units  # noqa: E731 - one use
    return Sampler(probes, clock, poll=settings.poll, warm_up=warm_up, learner=learner, held=held)


def _profile(engine: Face | AsyncEngine) -> bytes | None:
    if isinstance(engine, AsyncEngine):
        return engine.read(lambda state: state.documents.get(PROFILE))
    kind, id_ = PROFILE
    return engine.ask(GetDocuments(kind)).get(id_)


def _leased(engine: Face | AsyncEngine) -> int:
    if isinstance(engine, AsyncEngine):
        return engine.read(lambda state: state.leased_units)
    return engine.ask(GetStatus()).leased_units


def pool_agent(
    pool_id: str,
    *,
    node: str = "",
    units: int | None = None,
    resources: Mapping[str, object] | None = None,
    disk: str = "/",
    settings: Settings | None = None,
) -> PoolAgent:
    """An agent that reports this machine as a pool; hand it to whatever reaches the engine."""
    clock, rules = SystemClock(), settings or Settings()
    probes = host_probes(clock, disk=disk, gpus=_gpus())
    has = amounts(resources or {}, "resources")
    return PoolAgent(pool_id, probes, clock, settings=rules, node=node, units=units, resources=has, beat=rules.poll)


def wsgi_load(app: WsgiApp) -> WsgiLoad:
    """The WSGI middleware with the machine's stopwatch."""
    return WsgiLoad(app, stopwatch)


def _gpus() -> Callable[[], tuple[Gpu, ...]] | None:
    nvml = find_gpus()
    return None if nvml is None else nvml.gpus
