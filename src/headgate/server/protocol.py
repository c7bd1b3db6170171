"""HTTP on the wire: whoever is slow to send a request, or to take its answer, is cut off; so is an endless header.

There are only so many connections. When one more comes, one that holds on for nothing makes room for it: the oldest
that never said anything, else the one that is idle longest. Nobody who speaks is kept out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headgate.server.deadline import Deadline
from headgate.server.settings import ServerSettings

LONGEST_HEAD = 64 << 10
"""Bytes of request line and headers."""


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own protocol with deadlines and a limit on connections. `guarded` sets what they are."""

    read_timeout = 10.0
    write_timeout = 10.0
    most = 4_096
    silent: dict[PatientProtocol, None]
    """Connections on which no request ever came, the oldest first."""
    idle: dict[PatientProtocol, None]
    """Others without a request in progress, the one that is idle longest first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading = Deadline(self.loop, self.read_timeout, self.cut)
        self._writing = Deadline(self.loop, self.write_timeout, self.cut)
        self._head = 0
        self._in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._reading.begin()
        self.silent[self] = None
        if len(self.connections) > self.most:
            next(iter(self.idle if len(self.silent) == 1 and self.idle else self.silent)).cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._reading.begin()
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.cut()

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        self._not_waiting()
        if not self.url.startswith(b"/"):
            self._obey_target()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        self._reading.end()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline and not self.transport.is_closing():
            self.idle[self] = None
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        self._let_go()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.end()

    def timeout_keep_alive_handler(self) -> None:
        self.cut()  # closing would wait for a client to take the rest of an answer, for ever if it does not

    def _obey_target(self) -> None:
        """A target with a host in it stands above the Host header (RFC 9112, 3.2.2): that one is checked instead."""
        target = httptools.parse_url(self.url)
        if not target.host:
            return
        host = target.host + (b":%d" % target.port if target.port else b"")
        self.headers[:] = [(name, host if name == b"host" else value) for name, value in self.headers]

    def _not_waiting(self) -> None:
        self.silent.pop(self, None)
        self.idle.pop(self, None)

    def _let_go(self) -> None:
        self._not_waiting()
        self._reading.end()
        self._writing.end()

    def cut(self) -> None:
        """End the connection at once, whatever is still to be sent."""
        self._let_go()
        self.transport.abort()


def guarded(settings: ServerSettings, most: int) -> type[PatientProtocol]:
    """The protocol with its deadlines, and at most so many connections."""
    limits = {
        "read_timeout": settings.read_timeout,
        "write_timeout": settings.write_timeout,
        "most": most,
        "silent": {},
        "idle": {},
    }
    return type("GuardedProtocol", (PatientProtocol,), limits)
