"""A server as the home of an app: requests for the SDK, a stream for workers, requests where there is no stream."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from headgate.app.reporting import Reporting
from headgate.client.connection import Connection
from headgate.client.http import Http
from headgate.client.remote import RemoteConnection
from headgate.load.api import observe
from headgate.ports import Chance, Clock, Ids
from headgate.wire.http import BeatOut, WorkerIn
from headgate.wire.stream import Word
from headgate.worker.link import Link, Turn
from headgate.worker.polling_link import PollingLink
from headgate.worker.stream_link import NoStream, StreamLink

_log = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_FILE = Path(".headgate/token")


class RemoteLink:
    """The stream if there is one, polling otherwise."""

    def __init__(self, http: Http, worker_id: str, clock: Clock, chance: Chance) -> None:
        self._polling = PollingLink(http, worker_id, clock)
        self._link: Link = StreamLink(http, worker_id, clock, chance.uniform)

    def register(self, spec: WorkerIn) -> None:
        """Join, or say anew what this worker is."""
        try:
            self._link.register(spec)
        except NoStream as error:
            _log.warning("%s; falling back to polling", error)
            self._link = self._polling
            self._link.register(spec)

    def turn(
        self,
        words: Sequence[tuple[str, Word]],
        held: Collection[str],
        told: Collection[str],
        *,
        wants: bool,
        within: float,
    ) -> Turn:
        """Say words and hear what is new."""
        return self._link.turn(words, held, told, wants=wants, within=within)

    def beat(self, leases: Sequence[tuple[str, int]]) -> list[BeatOut]:
        """Renew leases."""
        return self._link.beat(leases)

    def drain(self) -> None:
        """Take no further work."""
        self._link.drain()

    def leave(self) -> None:
        """The worker is gone for good."""
        self._link.leave()

    def close(self) -> None:
        """Let go of connections."""
        self._link.close()


class ReportingConnection(RemoteConnection):
    """A connection that gathers requests of the application in this process and reports what they amount to."""

    def __init__(self, http: Http, ids: Ids, reporting: Reporting) -> None:
        super().__init__(http, ids, threading.Event().wait)
        self._reporting = reporting

    def observe(self, latency_s: float | None, error: bool) -> None:
        """A request of the application has ended; it is reported with others, within seconds."""
        observe(latency_s, error)
        self._reporting.begin()


class RemoteHome:
    """A server."""

    def __init__(self, http: Http, clock: Clock, ids: Ids, chance: Chance) -> None:
        self._http = http
        self._clock = clock
        self._chance = chance
        self._reporting = Reporting(http, clock, f"{os.uname().nodename}-{os.getpid()}")
        self.connection: Connection = ReportingConnection(http, ids, self._reporting)

    def report_load(self) -> None:
        """Report what the requests of this process amount to, from now on."""
        self._reporting.begin()

    def link(self, worker_id: str) -> Link:
        """A link for a worker."""
        return RemoteLink(self._http, worker_id, self._clock, self._chance)

    def address(self) -> str:
        """The server's own."""
        return self._http.url

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
        self._reporting.stop()


def open_remote(url: str, token: str | None, clock: Clock, ids: Ids, chance: Chance) -> RemoteHome:
    """A server by its address. The token: as given, `HEADGATE_TOKEN`, or that of the server of this directory."""
    found = token or os.environ.get("HEADGATE_TOKEN") or _local_token(url)
    return RemoteHome(Http(url, found, chance), clock, ids, chance)


def _local_token(url: str) -> str | None:
    if urlsplit(url).hostname not in LOOPBACK or not TOKEN_FILE.is_file():
        return None
    return TOKEN_FILE.read_text(encoding="utf-8").strip() or None
