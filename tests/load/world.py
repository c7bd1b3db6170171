"""A machine that is whatever the test says, and an engine that moves only when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.core.slots import OnRequest, slot_settings
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.load.health import MB, MonitorConfig
from headgate.load.monitor import ResourceMonitor
from headgate.stores.memory import MemoryStore
from headgate.testing import ManualClock, SeededChance, SeededIds
from headgate.worker.pull import PullScheduler
from headgate.worker.work_orders import PullConfig


class Machine:
    """A probe of a machine with as much memory as the test says."""

    name = "health"
    signals = ("memory_total", "memory_available", "cpu")

    def __init__(self, total_mb: int = 16_000, used: float = 0.1) -> None:
        self.total_mb = total_mb
        self.used = used
        self.cpu = 0.25

    def read(self) -> Mapping[str, float]:
        total = self.total_mb * MB
        return {"memory_total": total, "memory_available": round(total * (1 - self.used)), "cpu": self.cpu}


def engine_on(clock: ManualClock, settings: Settings, policy: Any = None) -> SharedEngine:
    """An engine without its timer thread: time passes when the test ticks."""
    engine = SharedEngine(Writer(MemoryStore(), policy or FirstFit(), SeededChance(1), settings), clock)
    engine.writer.open(clock.now())
    return engine


class World:
    """Monitor and scheduler on one engine, all on a manual clock. Handlers run when the test says so."""

    def __init__(self, monitor: MonitorConfig, pull: PullConfig) -> None:
        self.clock = ManualClock()
        self.machine = Machine()
        settings = slot_settings(monitor.max_concurrent_slots, pull.stagger_delay_ms)
        self.engine = engine_on(self.clock, settings, OnRequest())
        ids = SeededIds(1)
        self.monitor = ResourceMonitor(self.engine, self.machine, self.clock, ids, monitor)
        self.spawned: list[Callable[[], None]] = []
        self.scheduler = PullScheduler(self.monitor, self.engine, self.clock, ids, pull, self.spawned.append)
        self.events: list[tuple[Any, ...]] = []
        for event in ("work-claimed", "queue-empty", "backpressure", "stagger-wait"):
            self.scheduler.on(event, lambda *details, event=event: self.events.append((event, *details)))
        for event in ("slot-available", "memory-pressure", "health-changed", "slot-leaked"):
            self.monitor.on(event, lambda *details, event=event: self.events.append((event, *details)))

    def named(self, event: str) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.events if entry[0] == event]

    def run_spawned(self) -> None:
        """Let everything that was handed to a thread run here."""
        while self.spawned:
            self.spawned.pop(0)()

    def pass_time(self, milliseconds: int, step: int = 1_000) -> None:
        """Let time pass as an engine's timer would, in steps that it does not take for a pause of its own."""
        for _ in range(milliseconds // step):
            self.clock.advance(step)
            self.engine.do(c.Tick())


Make = Callable[..., World]


def worlds() -> Iterator[Make]:
    """For a fixture: makes worlds and stops them at the end."""
    made: list[World] = []

    def make(slots: int = 2, memory_per_slot_mb: int = 100, **pull: Any) -> World:
        config = MonitorConfig(max_concurrent_slots=slots, memory_per_slot_mb=memory_per_slot_mb)
        world = World(config, PullConfig(**{"stagger_delay_ms": 0, **pull}))
        made.append(world)
        return world

    yield make
    for world in made:
        world.scheduler.close(within=0)
