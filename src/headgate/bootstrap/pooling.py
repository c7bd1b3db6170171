"""A pool agent that reports to a server over HTTP until it is told to stop, and outlives the server's restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from headgate.client.http import Http, segment
from headgate.core import commands as c
from headgate.core.cluster import PoolReport
from headgate.core.errors import HeadgateError, PoolNotFound
from headgate.load.pool_agent import PoolAgent
from headgate.load.sampler import WARM_UP
from headgate.ports import Chance
from headgate.wire import http as w

FIRST_RETRY = 0.5
LONGEST_RETRY = 30.0
"""Seconds between two tries while the server cannot be told."""
_HOPELESS = range(400, 429)
"""What a server answers to a report that will not be better next time: a wrong token, a wrong report."""


class Beat(msgspec.Struct, frozen=True):
    """What became of one report."""

    report: PoolReport | None = None
    failure: Exception | None = None
    again_in: float = 0.0
    """Seconds to the next."""
    wanted: tuple[w.WantedOut, ...] = ()
    """Workers that the pool is asked to start."""


class PoolCalls:
    """A server as a pool agent sees it: something that takes reports."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.wanted: tuple[w.WantedOut, ...] = ()
        """The workers that the pool is asked to start, as of the last report."""

    def do(self, command: c.Command[Any]) -> w.PoolOut:
        """Send a report."""
        if not isinstance(command, c.ReportPool):
            raise TypeError(f"a pool agent only reports, it does not {type(command).__name__}")
        report = command.report
        heard = self._http.call("PUT", f"/v2/pools/{segment(report.id)}", w.PoolOut, body=pool_in(report))
        self.wanted = tuple(heard.wanted)
        return heard

    def neighbour(self, pool_id: str, node: str) -> str | None:
        """The other machine that reports the same pool, if there is one."""
        try:
            found = self._http.get(f"/v2/pools/{segment(pool_id)}", w.PoolOut)
        except PoolNotFound:
            return None
        return found.node if found.status == "online" and found.node not in ("", node) else None


def pool_in(report: PoolReport) -> w.PoolIn:
    """A report as the body of the call."""
    gpus = [
        w.GpuIn(gpu.id, gpu.name, gpu.vram_total, gpu.vram_allocated, gpu.utilization, gpu.temperature)
        for gpu in report.gpus
    ]
    return w.PoolIn(
        report.node,
        report.busy,
        report.units,
        dict(report.resources),
        gpus,
        list(report.cached_models),
        list(report.workers),
        list(report.reasons),
        dict(report.signals),
    )


class Reporting:
    """Beats until told to stop. While the server is away the pauses grow; then it is told again at every beat."""

    def __init__(
        self, agent: PoolAgent, calls: PoolCalls, every: int, chance: Chance, tell: Callable[[Beat], None]
    ) -> None:
        self._agent = agent
        self._calls = calls
        self._every = every / 1000
        self._chance = chance
        self._tell = tell
        self._failures = 0
        self._heard = False

    def once(self, told: threading.Event) -> Beat:
        """One report, after the moment that probes of rates need."""
        told.wait(WARM_UP / 1000)
        return self._beat()

    def run(self, told: threading.Event) -> None:
        """Report until told to stop, then say goodbye. A server that refuses the very first report is an error."""
        told.wait(WARM_UP / 1000)
        while not told.is_set():
            beat = self._beat()
            if beat.failure is not None and not self._heard and _hopeless(beat.failure):
                raise beat.failure
            self._tell(beat)
            told.wait(beat.again_in)
        if self._heard:
            self._goodbye()

    def _beat(self) -> Beat:
        report = self._agent.hand_in(self._calls)
        if report is not None:
            self._heard, self._failures = True, 0
            return Beat(report, None, self._every, self._calls.wanted)
        pause = min(LONGEST_RETRY, FIRST_RETRY * 2.0**self._failures)
        self._failures = min(16, self._failures + 1)
        return Beat(None, self._agent.failure, pause * (0.5 + self._chance.uniform()))

    def _goodbye(self) -> None:
        """Whether it is heard or not, silence will shut the pool as well, only later."""
        farewell = self._agent.farewell()
        try:
            self._calls.do(c.ReportPool(farewell))
        except (HeadgateError, OSError) as error:
            self._tell(Beat(None, error))
        else:
            self._tell(Beat(farewell))


def _hopeless(failure: Exception) -> bool:
    return isinstance(failure, HeadgateError) and failure.details.get("status") in _HOPELESS
