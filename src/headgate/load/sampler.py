"""The sampler: reads the probes at every poll and hands what they say to the engine. It never blocks on a probe.

The engine is only known by its face: something to give a command to. If it cannot be reached, the next poll tries
again; meanwhile the engine itself notices that nobody speaks to it and grants nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from headgate.core import commands as c
from headgate.core.errors import HeadgateError, InvalidInput
from headgate.core.week import PROFILE, WeekLearner
from headgate.load.loop import Repeating, Wait, repeat, repeat_async
from headgate.load.probe import LIMIT, Probe, Probes
from headgate.ports import Clock

POLL = 5_000
"""Milliseconds between two samples."""
WARM_UP = 250
"""Milliseconds before the first sample: most probes need two readings to tell a rate."""


class Doer(Protocol):
    """The face of an engine for threads."""

    def do(self, command: c.Command[Any]) -> Any:
        """Carry out a command."""
        ...


class AsyncDoer(Protocol):
    """The face of an engine for asyncio."""

    def do(self, command: c.Command[Any]) -> Awaitable[Any]:
        """Carry out a command."""
        ...


class Sampler:
    """One source of samples of load."""

    def __init__(
        self,
        probes: Sequence[Probe],
        clock: Clock,
        *,
        source: str = "host",
        poll: int = POLL,
        limit: int = LIMIT,
        warm_up: int = WARM_UP,
        learner: WeekLearner | None = None,
        held: Callable[[], float] | None = None,
    ) -> None:
        if not probes:
            raise InvalidInput("needs at least one probe", field="probes")
        self.source = source
        self.poll = poll
        self.problem: str | None = None
        """Why the last sample did not reach the engine."""
        self.rating: float | None = None
        self.last: c.SampleLoad | None = None
        self._probes = Probes(probes, min(limit, poll))
        self._clock = clock
        self._warm_up = warm_up
        self._learner = learner
        self._held = held
        self._repeating = Repeating("headgate-sampler", poll, warm_up)

    # -- one sample -----------------------------------------------------------------------------------------------

    def sample(self) -> c.SampleLoad:
        """Read all probes; takes at most the time limit of one."""
        reading = self._probes.read()
        self.last = c.SampleLoad(self.source, reading.signals, reading.reasons)
        return self.last

    def hand_in(self, engine: Doer) -> float | None:
        """Sample once and tell the engine; the rating, or none if it could not be told."""
        try:
            self.rating = engine.do(self.sample())
            lesson = self._lesson()
            if lesson is not None:
                engine.do(lesson)
        except (HeadgateError, OSError) as error:
            self._failed(error)
        else:
            self.problem = None
        return self.rating

    async def hand_in_async(self, engine: AsyncDoer) -> float | None:
        """The same on an event loop: reading happens in a thread."""
        try:
            self.rating = await engine.do(await asyncio.to_thread(self.sample))
            lesson = self._lesson()
            if lesson is not None:
                await engine.do(lesson)
        except (HeadgateError, OSError) as error:
            self._failed(error)
        else:
            self.problem = None
        return self.rating

    def _failed(self, error: Exception) -> None:
        self.problem = f"{type(error).__name__}: {error}"
        self.rating = None

    def _lesson(self) -> c.PutDocument | None:
        """The profile of the week, where an hour has just ended."""
        if self._learner is None or self.rating is None:
            return None
        body = self._learner.note(self._clock.now(), self.rating, self._held() if self._held is not None else 0.0)
        return None if body is None else c.PutDocument(*PROFILE, body)

    # -- again and again ------------------------------------------------------------------------------------------

    def run(self, engine: Doer, wait: Wait) -> None:
        """Sample until `wait`, called with seconds, answers that it is enough."""
        repeat(lambda: self.hand_in(engine), self.poll, wait, first_after=self._warm_up)

    def start(self, engine: Doer) -> None:
        """Sample in a thread of its own."""
        self._repeating.start(lambda: self.hand_in(engine))

    def stop(self) -> None:
        """Stop sampling. The source is not withdrawn: an engine that nobody speaks to shall shut its gate."""
        self._repeating.stop()
        self._probes.close()

    async def run_async(self, engine: AsyncDoer, wait: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Sample on an event loop until cancelled."""
        try:
            await repeat_async(lambda: self.hand_in_async(engine), self.poll, wait, first_after=self._warm_up)
        finally:
            self._probes.close()
