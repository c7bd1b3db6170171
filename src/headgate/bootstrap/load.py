"""Wiring of load: slots and pull schedulers on an engine in memory, samplers, pool agents, middleware."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.actions import Action
from headgate.core.cluster import Gpu
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.week import PROFILE, WeekLearner, decode_week
from headgate.engine.aio import AsyncEngine
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
from headgate.load.sampler import Sampler
from headgate.ports import Clock
from headgate.stores.memory import MemoryStore
from headgate.system import SystemChance, SystemClock, SystemIds, stopwatch
from headgate.worker.pull import PullConfig, PullScheduler

_KEEP = 3_600_000
"""Milliseconds for which an engine in memory remembers what has ended."""


class OnRequest:
    """The policy of an engine that starts nothing by itself: whoever pulls proposes."""

    def propose(self, state: State, now: int) -> list[Action]:  # noqa: ARG002 - the shape of every policy
        """Nothing."""
        return []


def slot_settings(monitor: MonitorConfig, pull: PullConfig) -> Settings:
    """The rules of the core that slots and a pull scheduler amount to."""
    return Settings(
        total_units=monitor.max_concurrent_slots,
        fixed_busy=0.0,
        stagger=pull.stagger_delay_ms,
        max_queue_depth=pull.max_queue_depth,
        ageing=0,
        preemption=False,
        retain_finished=100,
        retention=Retention(jobs=_KEEP, events=_KEEP),
    )


def slot_engine(monitor: MonitorConfig, pull: PullConfig, clock: Clock) -> SharedEngine:
    """An engine in memory for slots and work orders, running."""
    writer = Writer(MemoryStore(), OnRequest(), SystemChance(), slot_settings(monitor, pull))
    return SharedEngine(writer, clock).start()


def resource_monitor(config: MonitorConfig | None = None) -> ResourceMonitor:
    """A resource monitor with an engine of its own; `start` it to have it look at the machine.

    Slots are given as they are asked for: only a pull scheduler staggers its starts.
    """
    scheduler = pull_scheduler(config, PullConfig(stagger_delay_ms=0))
    return scheduler.monitor  # type: ignore[return-value]  # the monitor that was put in


def pull_scheduler(monitor: MonitorConfig | None = None, scheduler: PullConfig | None = None) -> PullScheduler:
    """A pull scheduler with its resource monitor (`.monitor`), on one engine in memory."""
    slots, pull = (monitor or MonitorConfig()).check(), (scheduler or PullConfig()).check()
    clock = SystemClock()
    ids, engine = SystemIds(clock, SystemChance()), slot_engine(slots, pull, clock)
    watched = ResourceMonitor(engine, HealthProbe(clock, Cgroup()), clock, ids, slots)
    return PullScheduler(watched, engine, clock, ids, pull)


def host_sampler(engine: SharedEngine | AsyncEngine, *, disk: str = "/", applications: bool = True) -> Sampler:
    """A sampler of this machine for an engine; `start(engine)` it. It learns the week where the settings ask for it."""
    settings, clock = engine.writer.settings, engine.clock
    probes = host_probes(clock, disk=disk, gpus=_gpus())
    if applications:
        probes.append(RECORDER)
    learner = None
    if settings.time_of_day is not None and settings.time_of_day.learn:
        week = decode_week(engine.read(lambda state: state.documents.get(PROFILE)))
        learner = WeekLearner(week, settings.time_of_day.utc_offset)
    held = max(1, settings.total_units)
    return Sampler(
        probes,
        clock,
        poll=settings.poll,
        learner=learner,
        held=lambda: engine.read(lambda state: state.leased_units) / held,
    )


def pool_agent(pool_id: str, *, node: str = "", units: int | None = None, disk: str = "/") -> PoolAgent:
    """An agent that reports this machine as a pool; hand it to whatever reaches the engine."""
    clock = SystemClock()
    return PoolAgent(pool_id, host_probes(clock, disk=disk, gpus=_gpus()), clock, node=node, units=units)


def wsgi_load(app: WsgiApp) -> WsgiLoad:
    """The WSGI middleware with the machine's stopwatch."""
    return WsgiLoad(app, stopwatch)


def _gpus() -> Callable[[], tuple[Gpu, ...]] | None:
    nvml = find_gpus()
    return None if nvml is None else nvml.gpus
