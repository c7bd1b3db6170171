"""What an application's requests amount to, sent to a server every few seconds: taking one in costs no call."""

from __future__ import annotations

import threading
from typing import Any

from headgate.client.http import Http
from headgate.core import commands as c
from headgate.load.api import RECORDER
from headgate.load.sampler import Sampler
from headgate.ports import Clock
from headgate.wire.http import LoadIn, LoadOut


class LoadCalls:
    """A server as a sampler sees it: something that takes samples of requests."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def do(self, command: c.Command[Any]) -> float:
        """Send a sample."""
        if not isinstance(command, c.SampleLoad):
            raise TypeError(f"an application only reports its load, it does not {type(command).__name__}")
        said: dict[str, Any] = command.signals
        body = LoadIn(
            source=command.source,
            latency_s=said["api_latency"],
            in_flight=round(said["api_inflight"] or 0),
            error_rate=said["api_errors"],
        )
        return self._http.post("/v2/load", body, LoadOut).busy


class Reporting:
    """Begins with the first request of this process and ends with the app; a server that is away is tried again."""

    def __init__(self, http: Http, clock: Clock, source: str) -> None:
        self._calls = LoadCalls(http)
        self._sampler = Sampler([RECORDER], clock, source=source)
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Report from now on. Beginning twice is the same as once."""
        with self._lock:
            if not self._begun:
                self._begun = True
                self._sampler.start(self._calls)

    def stop(self) -> None:
        """Report no more: the server forgets an application that says nothing for a minute."""
        self._sampler.stop()
