"""The simulator of a server: forks its live state, reads its history, and has the work done in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from headgate import sim
from headgate.core.errors import InvalidInput
from headgate.core.quantities import duration
from headgate.engine.aio import AsyncEngine
from headgate.server.settings import ServerSettings
from headgate.server.simulations import Side
from headgate.sim.launching import simulate
from headgate.sim.orders import HORIZON, Order, PolicyOrder, Sample, SideOrder, Upload
from headgate.wire import simulating as w

LONGEST = 366 * 86_400_000
"""How far ahead anything is simulated."""
LOOK_BACK = 86_400_000
"""How much of the past future arrivals are made from, at most."""


class ServerSimulator:
    """Simulations around one engine."""

    def __init__(self, engine: AsyncEngine, settings: ServerSettings) -> None:
        self._engine = engine
        self._settings = settings

    async def simulate(
        self, asked: w.SimulateIn, sides: Sequence[Side], hear: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        """Carry it out in a process of its own."""
        order = await self._order(asked, tuple(_side(side) for side in sides))
        limits = self._settings
        return await simulate(order, hear, limit_s=limits.simulation_time, memory=limits.simulation_memory)

    async def _order(self, asked: w.SimulateIn, sides: tuple[SideOrder, ...]) -> Order:
        horizon = None if asked.horizon is None else _horizon(asked.horizon)
        most = self._settings.simulation_jobs
        common: dict[str, Any] = {"horizon": horizon, "seeds": asked.seeds, "frames": asked.frames, "most_jobs": most}
        match asked.workload:
            case w.LiveIn(arrivals=arrivals):
                fork = await self._fork(arrivals, horizon or HORIZON)
                return Order(sides, fork, arrivals=arrivals, **common)
            case w.SampleIn() as sample:
                shape = sim.Shape(sample.jobs, sample.processors, sample.load, tenants=sample.tenants)
                return Order(sides, workload=Sample(sample.model, shape), **common)
            case w.UploadIn() as upload:
                given = Upload(upload.text, upload.format, upload.name)
                return Order(sides, workload=given, processors=upload.processors, **common)

    async def _fork(self, arrivals: str, horizon: int) -> sim.Fork:
        """The state between two commands; what came before it is asked of the store, beside the work."""
        now = self._engine.clock.now()
        most = min(sim.MOST_JOBS, self._settings.simulation_jobs)
        fork = self._engine.read(lambda state: sim.fork_of(state, now, most=most))
        if arrivals == "none":
            return fork
        return await asyncio.to_thread(sim.with_recent, fork, self._engine.writer.store, min(horizon, LOOK_BACK))


def _side(side: Side) -> SideOrder:
    given = side.changes
    changes = sim.Changes(given.scale, given.without_pools, given.load)
    return SideOrder(PolicyOrder(side.policy, side.lua), changes)


def _horizon(given: float | str) -> int:
    horizon = duration(given, "horizon")
    if not 0 < horizon <= LONGEST:
        raise InvalidInput("must be more than nothing and at most a year", field="horizon")
    return horizon
