"""HTTP on the wire: whoever is slow to send a request, or to take its answer, is cut off; so is an endless header."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 64 << 10
"""Bytes of request line and headers."""


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own protocol with two deadlines. How long each may be is set by `guarded`."""

    read_timeout = 10.0
    write_timeout = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._head = 0
        self._in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._read_in_time()
        self._written_in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading is None and self._in_head:
            self._expect_request()
        if self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        if self.parser.should_upgrade() and self._should_upgrade():
            self._read_in_time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        self._read_in_time()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._written_in_time()

    def _expect_request(self) -> None:
        self._reading = self.loop.call_later(self.read_timeout, self._cut)

    def _read_in_time(self) -> None:
        _cancel(self._reading)
        self._reading = None

    def _written_in_time(self) -> None:
        _cancel(self._writing)
        self._writing = None

    def _cut(self) -> None:
        self._reading = None
        self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a deadline, if there is one."""
    if timer is not None:
        timer.cancel()


def guarded(read_timeout: float, write_timeout: float) -> type[PatientProtocol]:
    """The protocol with its deadlines."""
    deadlines = {"read_timeout": read_timeout, "write_timeout": write_timeout}
    return type("GuardedProtocol", (PatientProtocol,), deadlines)
