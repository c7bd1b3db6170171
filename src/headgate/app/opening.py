"""From an address to a connection: a path, `memory://`, `postgresql://...`, `http(s)://...`, or an owner's socket."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from headgate.app.embedded import EmbeddedConnection
from headgate.app.embedded_link import EmbeddedLink
from headgate.app.measuring import Measuring
from headgate.bootstrap.engine import open_engine
from headgate.client.connection import Connection
from headgate.core.errors import InvalidInput
from headgate.core.settings import Settings
from headgate.engine.local import Face, LocalClient
from headgate.engine.serving import LocalServer
from headgate.engine.shared import SharedEngine
from headgate.ports import Clock, Ids, StoreUnavailable
from headgate.system import stopwatch
from headgate.worker.link import Link

SOCKET = "unix://"


class Home(Protocol):
    """Where an app's jobs live."""

    connection: Connection

    def link(self, worker_id: str) -> Link:
        """A link for a worker."""
        ...

    def address(self) -> str:
        """By which other processes of this machine reach the same place."""
        ...

    def report_load(self) -> None:
        """See to it that what this process records of its requests counts."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class EmbeddedHome:
    """An engine in this process or in its neighbour."""

    def __init__(self, address: str, face: Face, measuring: Measuring | None, clock: Clock, ids: Ids) -> None:
        self._address = address
        self._face = face
        self._measuring = measuring
        self._clock = clock
        self._lock = threading.Lock()
        self._server: LocalServer | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.connection: Connection = EmbeddedConnection(face, ids)

    def link(self, worker_id: str) -> Link:
        """A link for a worker."""
        return EmbeddedLink(self._face, worker_id, self._clock)

    def address(self) -> str:
        """A file is its own address; an engine that lives in this process alone is served on a socket."""
        if not isinstance(self._face, SharedEngine):
            return self._address
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="headgate-")
                self._server = LocalServer(self._face, Path(self._folder.name) / "engine.sock", stopwatch)
                self._server.start()
            return f"{SOCKET}{self._folder.name}/engine.sock"

    def report_load(self) -> None:
        """Nothing to do: where load is measured, the owner's sampler reads what its process records."""

    def close(self) -> None:
        """Let go of the engine, and of the database if this process owns it."""
        if self._measuring is not None:
            self._measuring.stop()
        if self._server is not None:
            self._server.stop()
        self._face.stop()
        if self._folder is not None:
            self._folder.cleanup()


def open_home(
    address: str, load: str | float, settings: Settings | None, clock: Clock, ids: Ids, remote: Callable[[str], Home]
) -> Home:
    """Open what the address names."""
    if address.startswith(("http://", "https://")):
        return remote(address)
    if address.startswith(SOCKET):
        return EmbeddedHome(address, LocalClient(Path(address.removeprefix(SOCKET))), None, clock, ids)
    chosen = with_load(settings or Settings(), load)
    if "://" not in address:
        _make_room(Path(address).resolve().parent)
    face = open_engine(address, chosen)
    measuring = None
    if chosen.fixed_busy is None:
        measuring = Measuring(face, chosen, clock)
        measuring.start()
    return EmbeddedHome(address, face, measuring, clock, ids)


def _make_room(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{folder}: cannot make this directory: {error.strerror}") from error


def with_load(settings: Settings, load: str | float) -> Settings:
    """Settings with the load measured, or fixed at a rating."""
    if load == "measured":
        return settings
    if isinstance(load, bool) or not isinstance(load, int | float) or not 0 <= load <= 10:
        raise InvalidInput("must be 'measured' or a rating from 0 to 10", field="load")
    return msgspec.structs.replace(settings, fixed_busy=float(load))
