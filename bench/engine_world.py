"""Clients of an engine, as threads and as tasks, for the benchmark of the engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, Self, TypeVar

from headgate.core import commands as c
from headgate.core.lease import Lease
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.engine.aio import AsyncEngine
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.ports import Store
from headgate.system import SystemChance, SystemClock, SystemIds
from headgate.testing import job, worker

T = TypeVar("T")
BULK = 1_000
SETTINGS = Settings(fixed_busy=0, total_units=1_000_000, max_queue_depth=0)
PAYLOAD = "x" * 100


class Jobs:
    """New jobs of one kind, with a payload of 100 bytes. The specification is parsed before the clock runs."""

    def __init__(self) -> None:
        self._ids = SystemIds(SystemClock(), SystemChance())
        self._spec = job("job", payload=PAYLOAD)
        self.made = 0

    def submit(self, size: int = 1) -> c.Submit:
        self.made += size
        return c.Submit(tuple(c.NewJob(self._ids.new(), self._spec) for _ in range(size)))


def threads(work: Callable[[T], object], shares: list[T]) -> None:
    """Each share in a thread of its own; one alone in this one."""
    if len(shares) == 1:
        work(shares[0])
        return
    running = [threading.Thread(target=work, args=(share,)) for share in shares]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


class Clients:
    """So many threads that submit jobs of one type and do the work of those they submitted."""

    def __init__(self, engine: SharedEngine, name: str, number: int, prefetch: int = 0) -> None:
        self.engine = engine
        self.name, self.number = name, number
        self._ids = SystemIds(SystemClock(), SystemChance())
        self._spec = job("job", type=name, payload=PAYLOAD)
        engine.do(c.RegisterWorker(worker(name, slots=number, types=[name], prefetch=prefetch)))

    def submit(self, size: int = 1) -> c.Submit:
        return c.Submit(tuple(c.NewJob(self._ids.new(), self._spec) for _ in range(size)))

    def life(self) -> None:
        engine = self.engine
        (job_id,) = engine.do(self.submit()).ids
        lease = engine.read(lambda state: state.jobs[job_id].lease)
        assert lease is not None
        engine.do(c.Start(lease.id, lease.token))
        engine.do(c.Complete(lease.id, lease.token))

    def cycles(self, length: int) -> Callable[[], float]:
        """A queue is there; each commit ends one job, starts the next and grants the one after that."""

        def turn() -> float:
            self.engine.do(self.submit(length + 2))
            leases = self._leases()
            began = perf_counter()
            self.engine.do(c.Start(leases[0].id, leases[0].token))
            for _ in range(length):
                now, after = leases[0], leases[1]
                self.engine.do_all([c.Complete(now.id, now.token), c.Start(after.id, after.token)])
                leases = self._leases()
            took = perf_counter() - began
            for lease in leases:
                if lease.started_at is None:
                    self.engine.do(c.Start(lease.id, lease.token))
                self.engine.do(c.Complete(lease.id, lease.token))
            return length / took

        return turn

    def _leases(self) -> list[Lease]:
        return self.engine.read(lambda state: [state.leases[id_] for id_ in state.workers[self.name].leases])


def lives(clients: Clients, each: int) -> None:
    """Full lives, so many by each client."""

    def work(_: int) -> None:
        for _ in range(each):
            clients.life()

    threads(work, list(range(clients.number)))


class AsyncClients:
    """Tasks on one event loop that submit jobs and do the work of those they submitted."""

    def __init__(self, store: Store) -> None:
        writer = Writer(store, FirstFit(), SystemChance(), SETTINGS)
        self._engine = AsyncEngine(writer, SystemClock(), stopwatch=perf_counter)
        self._ids = SystemIds(SystemClock(), SystemChance())
        self._queued = job("job", type="nobody's", payload=PAYLOAD)
        self._run = job("job", payload=PAYLOAD)

    async def __aenter__(self) -> Self:
        await self._engine.start()
        await self._engine.do(c.RegisterWorker(worker("w", slots=10_000, types=["generic"])))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._engine.stop()

    async def submissions(self, callers: int, each: int) -> float:
        async def call() -> None:
            for _ in range(each):
                await self._engine.do(c.Submit((c.NewJob(self._ids.new(), self._queued),)))

        return await self._timed(callers * each, [call() for _ in range(callers)])

    async def lives(self, clients: int, each: int) -> float:
        return await self._timed(clients * each, [self._lives(each) for _ in range(clients)])

    async def _lives(self, each: int) -> None:
        engine = self._engine
        jobs = engine.writer.state.jobs
        for _ in range(each):
            (job_id,) = (await engine.do(c.Submit((c.NewJob(self._ids.new(), self._run),)))).ids
            lease = jobs[job_id].lease
            assert lease is not None
            await engine.do(c.Start(lease.id, lease.token))
            await engine.do(c.Complete(lease.id, lease.token))

    async def _timed(self, work: int, tasks: list[Any]) -> float:
        began = perf_counter()
        await asyncio.gather(*tasks)
        return work / (perf_counter() - began)
