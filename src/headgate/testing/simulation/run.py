"""One run: a world, everybody in it, chaos for a number of steps, then calm until everything has settled."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import msgspec

from headgate.core import events as e
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.states import TERMINAL
from headgate.testing.simulation import faults as fault_mix
from headgate.testing.simulation.checker import check_run
from headgate.testing.simulation.client import Client
from headgate.testing.simulation.disk import SimDisk
from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.history import History
from headgate.testing.simulation.network import Network
from headgate.testing.simulation.operator import Operator
from headgate.testing.simulation.server import Server
from headgate.testing.simulation.worker import Worker
from headgate.testing.simulation.world import Violation, World

STEPS = 1_500
MOST_CALM = 3_600_000
"""Milliseconds after which everything must have settled once faults have stopped."""


class Report(msgspec.Struct, frozen=True):
    """What became of a seed."""

    seed: int
    steps: int
    fingerprint: str
    jobs: int
    commits: int
    restarts: int
    answers: int
    seen: dict[str, int]
    """Faults, events, commands and errors, and how often they came up."""
    problem: str | None
    trace: tuple[str, ...]


def simulate(seed: int, steps: int = STEPS, faults: Faults | None = None) -> Report:
    """Run one seed, with a mix of faults of its own unless one is given. The same arguments give the same report."""
    simulation = Simulation(seed, faults)
    problem = None
    try:
        simulation.chaos(steps)
        simulation.settle()
        check_run(simulation.disk, simulation.history)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed and the trace go with it
        problem = f"{type(error).__name__}: {error}"
    return simulation.report(seed, problem)


def draw_settings(chance: random.Random) -> Settings:
    """Small enough that every limit is met."""
    return Settings(
        total_units=40,
        reserve=chance.choice((0, 2)),
        recalculate=1_000,
        fall_half_life=1_000,
        max_queue_depth=chance.choice((0, 60)),
        ageing=chance.choice((0, 10_000, 40_000)),
        stagger=chance.choice((0, 0, 50)),
        retain_finished=chance.choice((0, 5, 25, 10_000)),
        preemption_grace=chance.choice((0, 3_000)),
        lease_ttl=chance.choice((9_000, 20_000)),
        worker_silence=30_000,
        retention=_draw_retention(chance),
    )


def _draw_retention(chance: random.Random) -> Retention:
    """Ages of seconds in two runs of three, so that much is deleted while much is going on."""
    if chance.random() < 0.33:
        return Retention()
    return Retention(
        jobs=chance.choice((None, 0, 2_000, 10_000)),
        keys=chance.choice((0, 5_000, 20_000)),
        events=chance.choice((None, 0, 5_000)),
        load=chance.choice((None, 10_000)),
    )


class Simulation:
    """Everybody in one world."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.world = world = World(seed)
        drawn = fault_mix.draw(world.chance)
        self.faults = drawn if faults is None else msgspec.structs.replace(faults)  # a copy: they stop in the end
        settings = draw_settings(world.chance)
        self.disk = SimDisk(settings.retention)
        self.history = History(world, self.disk, settings.lease_ttl)
        self.server = Server(world, self.disk, self.faults, self.history, settings)
        self.network = Network(world, self.faults)
        parts = (world, self.network, self.server, self.history, self.faults)
        self.workers = {f"w{n}": Worker(f"w{n}", *parts) for n in range(world.chance.randint(2, 5))}
        self.clients = [Client(f"c{n}", *parts) for n in range(world.chance.randint(1, 3))]
        self.operator = Operator("op", world, self.network, self.server)
        self.server.deliver = self._deliver
        self._begin()

    def _begin(self) -> None:
        self.world.note(f"faults: {self.faults}")
        self.server.boot()
        numbers = itertools.count(1)
        for number, worker in enumerate(self.workers.values()):
            worker.arrange(number)
            worker.live()
        for client in self.clients:
            client.numbers = numbers
            client.live()
        self.operator.begin(self.faults, tuple(self.workers))

    def _deliver(self, granted: e.LeaseGranted) -> None:
        holders: Sequence[Worker | Client] = [client for client in self.clients if client.owns(granted.job_id)]
        if granted.worker_id is not None:
            holders = [self.workers[granted.worker_id]]
        for holder in holders:
            life = holder.lives

            def offer(holder: Worker | Client = holder, life: int = life) -> None:
                if holder.lives == life:
                    holder.later(0, lambda: holder.offered(granted.lease_id, granted.token, granted.job_id))

            self.network.carry(offer)

    # -- phases -------------------------------------------------------------------------------------------------

    def chaos(self, steps: int) -> None:
        """Let everything go wrong that can."""
        for _ in range(steps):
            self.world.step()

    def settle(self) -> None:
        """Stop the faults and let time pass until nothing is left to do."""
        world = self.world
        world.note("calm")
        world.calm = True
        calm = Faults()
        for name in calm.__struct_fields__:
            setattr(self.faults, name, getattr(calm, name))
        deadline = world.now + MOST_CALM
        self._until(lambda: self.server.writer is not None and self.server.writer.stopped is None, deadline)
        self.server.settle_clock()
        self.operator.make_peace()
        for worker in self.workers.values():
            worker.frozen_until = 0
            worker.register()
        self._until(self._settled, deadline)

    def _until(self, done: Callable[[], bool], deadline: int) -> None:
        while not done():
            if self.world.now > deadline:
                raise Violation(f"nothing settles: {self._open_jobs()}")
            self.world.step()

    def _settled(self) -> bool:
        writer = self.server.writer
        if writer is None or writer.stopped is not None or any(actor.waiting for actor in self._actors()):
            return False
        return all(job.state in TERMINAL for job in writer.state.jobs.values()) and not writer.index_backlog

    def _actors(self) -> Sequence[Worker | Client | Operator]:
        return [*self.workers.values(), *self.clients, self.operator]

    def _open_jobs(self) -> str:
        writer = self.server.writer
        if writer is None:
            return "the engine is not up"
        calls = {actor.name: actor.waiting for actor in self._actors() if actor.waiting}
        jobs = [f"{job.id} {job.state}" for job in writer.state.jobs.values() if job.state not in TERMINAL]
        return f"{len(jobs)} jobs are open ({', '.join(jobs[:5])}), unanswered calls: {calls}"

    def report(self, seed: int, problem: str | None) -> Report:
        """What became of it."""
        world, tables = self.world, self.disk.tables
        return Report(
            seed,
            world.steps,
            world.fingerprint(),
            len(tables.jobs),
            tables.mark.number,
            self.server.lives,
            len(self.history.accepted),
            dict(world.seen + self.disk.forgetting.counts),
            problem,
            tuple(world.lines),
        )
