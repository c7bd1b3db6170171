"""What applications say of their own load: single requests or totals become one sample for each source.

A source that falls silent is withdrawn after a minute: an application without traffic has no latency to speak of.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

from headgate.core.commands import SampleLoad, WithdrawLoad
from headgate.core.errors import HeadgateError, InvalidInput
from headgate.engine.aio import AsyncEngine
from headgate.wire.http import LoadIn

WINDOW = 60_000
MOST = 1_000
MOST_SOURCES = 1_000


class Source:
    """The last minute of one application."""

    def __init__(self) -> None:
        self.latencies: deque[tuple[int, float]] = deque(maxlen=MOST)
        self.errors: deque[tuple[int, bool]] = deque(maxlen=MOST)
        self.in_flight: tuple[int, int] | None = None
        self.error_rate: tuple[int, float] | None = None

    def add(self, sample: LoadIn, now: int) -> None:
        """Take in what was said."""
        if sample.latency_s is not None:
            self.latencies.append((now, sample.latency_s))
        if sample.error is not None:
            self.errors.append((now, sample.error))
        if sample.in_flight is not None:
            self.in_flight = (now, sample.in_flight)
        if sample.error_rate is not None:
            self.error_rate = (now, sample.error_rate)

    def signals(self, now: int) -> dict[str, float | None]:
        """What the last minute amounts to; nothing if nothing was said in it."""
        begin = now - WINDOW
        found: dict[str, float | None] = {}
        latencies = sorted(value for at, value in self.latencies if at >= begin)
        if latencies:
            found["api_latency"] = latencies[math.ceil(len(latencies) * 0.95) - 1]
        errors = [error for at, error in self.errors if at >= begin]
        if self.error_rate is not None and self.error_rate[0] >= begin:
            found["api_errors"] = self.error_rate[1]
        elif errors:
            found["api_errors"] = sum(errors) / len(errors)
        if self.in_flight is not None and self.in_flight[0] >= begin:
            found["api_inflight"] = float(self.in_flight[1])
        return found


class AppLoad:
    """All sources that report over HTTP."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._sources: dict[str, Source] = {}
        self._keeping: asyncio.Task[None] | None = None

    async def report(self, sample: LoadIn) -> float:
        """Take in a sample; answers with the rating."""
        _check(sample)
        if sample.source not in self._sources and len(self._sources) >= MOST_SOURCES:
            raise InvalidInput(f"there are {MOST_SOURCES} sources already", field="source")
        source = self._sources.setdefault(sample.source, Source())
        now = self._engine.clock.now()
        source.add(sample, now)
        rating = await self._engine.do(SampleLoad(sample.source, source.signals(now)))
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep(), name="headgate-app-load")
        return rating

    def stop(self) -> None:
        """Keep nothing up to date any more."""
        if self._keeping is not None:
            self._keeping.cancel()

    async def _keep(self) -> None:
        """Say again what holds, until there is nothing left to say."""
        while self._sources:
            await asyncio.sleep(self._engine.writer.settings.poll / 1000)
            now = self._engine.clock.now()
            for name, source in list(self._sources.items()):
                signals = source.signals(now)
                if not signals:
                    del self._sources[name]
                try:
                    await self._engine.do(SampleLoad(name, signals) if signals else WithdrawLoad(name))
                except HeadgateError:  # the engine does not serve; it forgets all samples when it is rebuilt
                    continue


def _check(sample: LoadIn) -> None:
    if not sample.source.strip() or len(sample.source) > 256 or not sample.source.isprintable():
        raise InvalidInput("must be a short, printable name", field="source")
    if sample.source == "host":
        raise InvalidInput("is measured by the server itself", field="source")
    said = (sample.latency_s, sample.in_flight, sample.error, sample.error_rate)
    if all(value is None for value in said):
        raise InvalidInput("at least one of latency_s, in_flight, error, error_rate is needed", field="latency_s")
    for field in ("latency_s", "in_flight", "error_rate"):
        value = getattr(sample, field)
        if value is not None and not (math.isfinite(value) and 0 <= value <= 1e9):
            raise InvalidInput("must be a number from 0 to 1e9", field=field)
