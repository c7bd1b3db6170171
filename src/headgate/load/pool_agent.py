"""The pool agent: tells the engine by heartbeat how busy this machine is, which GPUs it has and who works on it.

The rating is made here, by the functions that the core uses for its own, so that leases on several machines respect
the load of each. `headgate pool` runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headgate.core import commands as c
from headgate.core.capacity import FULL, Load, Sample, rate_sample
from headgate.core.cluster import PoolReport
from headgate.core.errors import HeadgateError, InvalidInput
from headgate.core.quantities import Resources
from headgate.core.settings import Settings
from headgate.load.gpu import GpuProbe
from headgate.load.loop import Repeating, Wait, repeat, repeat_async
from headgate.load.probe import LIMIT, Probe, Probes
from headgate.load.sampler import POLL, WARM_UP, AsyncDoer, Doer
from headgate.ports import Clock

LEFT = "its pool agent has left"
_HOST = "host"


class PoolAgent:
    """Reports one pool."""

    def __init__(
        self,
        pool_id: str,
        probes: Sequence[Probe],
        clock: Clock,
        *,
        settings: Settings | None = None,
        node: str = "",
        units: int | None = None,
        resources: Resources = (),
        workers: Callable[[], Sequence[str]] = tuple,
        cached_models: Callable[[], Sequence[str]] = tuple,
        beat: int = POLL,
        limit: int = LIMIT,
    ) -> None:
        if not pool_id:
            raise InvalidInput("must not be empty", field="pool_id")
        self.failure: Exception | None = None
        """Why the last report did not reach the engine."""
        self._settings = settings or Settings()
        self._load = Load(self._settings)
        self._pool = PoolReport(pool_id, node, units=units, resources=resources)
        self._gpus = next((probe for probe in probes if isinstance(probe, GpuProbe)), None)
        self._probes = Probes(probes, min(limit, beat))
        self._clock = clock
        self._workers = workers
        self._cached_models = cached_models
        self._beat = beat
        self._repeating = Repeating("headgate-pool-agent", beat, WARM_UP)

    def report(self) -> PoolReport:
        """Read the machine and rate it."""
        reading = self._probes.read()
        now, load = self._clock.now(), self._load
        ratings, reasons = rate_sample(reading.signals, self._settings, reading.reasons)
        load.hear(_HOST, Sample(now, reading.signals, ratings, reasons), self._settings)
        load.take(now, *load.rate(now, self._settings), blind=False)
        return PoolReport(
            self._pool.id,
            self._pool.node,
            load.rating,
            self._pool.units,
            self._pool.resources,
            self._gpus.latest if self._gpus is not None else (),
            tuple(self._cached_models()),
            tuple(self._workers()),
            load.reasons,
            tuple(sorted(load.signals.items())),
        )

    def farewell(self) -> PoolReport:
        """The last word: nobody watches the machine any more, so nothing more may start there."""
        return PoolReport(self._pool.id, self._pool.node, FULL, self._pool.units, self._pool.resources, reasons=(LEFT,))

    @property
    def problem(self) -> str | None:
        """Why the last report did not reach the engine, in words."""
        return None if self.failure is None else f"{type(self.failure).__name__}: {self.failure}"

    def hand_in(self, engine: Doer) -> PoolReport | None:
        """Report once; none if the engine could not be told, and the next beat tries again."""
        try:
            report = self.report()
            engine.do(c.ReportPool(report))
        except (HeadgateError, OSError) as error:
            self.failure = error
            return None
        self.failure = None
        return report

    async def hand_in_async(self, engine: AsyncDoer) -> PoolReport | None:
        """The same on an event loop: reading happens in a thread."""
        try:
            report = await asyncio.to_thread(self.report)
            await engine.do(c.ReportPool(report))
        except (HeadgateError, OSError) as error:
            self.failure = error
            return None
        self.failure = None
        return report

    def run(self, engine: Doer, wait: Wait) -> None:
        """Report until `wait`, called with seconds, answers that it is enough."""
        repeat(lambda: self.hand_in(engine), self._beat, wait, first_after=WARM_UP)

    def start(self, engine: Doer) -> None:
        """Report from a thread of its own."""
        self._repeating.start(lambda: self.hand_in(engine))

    def stop(self) -> None:
        """Report no more: the pool goes degraded, then offline."""
        self._repeating.stop()
        self._probes.close()

    async def run_async(self, engine: AsyncDoer, wait: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Report on an event loop until cancelled."""
        try:
            await repeat_async(lambda: self.hand_in_async(engine), self._beat, wait, first_after=WARM_UP)
        finally:
            self._probes.close()
