"""WebSockets on the wire: a handshake, a message and the taking of an answer each have to come to an end in time."""

from __future__ import annotations

from asyncio.transports import BaseTransport
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from headgate.server.deadline import Deadline
from headgate.server.settings import ServerSettings

MOST_FRAGMENTS = 1_000
"""Pieces of one message: empty ones count for nothing in its size, and would fill the memory all the same."""
_TOO_LONG = 1009
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class PatientWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's own protocol with deadlines. How long each may be is set by `guarded_sockets`."""

    read_timeout = 10.0
    write_timeout = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opening = Deadline(self.loop, self.read_timeout, self.cut)
        self._reading = Deadline(self.loop, self.read_timeout, self.cut)
        self._writing = Deadline(self.loop, self.write_timeout, self.cut)
        self._frames_read = FrameEnds()
        self._between = True
        """Whether what has come ends with the end of a frame."""

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._opening.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        opened = self.handshake_initiated
        super().data_received(data)
        if opened:
            self._between = self._frames_read.feed(data)
        if not self.handshake_initiated:  # the library takes shorter headers than we do, and answers nothing to longer
            self.transport.write(_REFUSED)
            self.transport.close()
        self.watch_message()

    def start_keepalive(self) -> None:
        self._opening.end()
        super().start_keepalive()

    async def receive(self) -> Any:
        message = await super().receive()
        self.watch_message()
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # with an ordinary answer, which uvicorn takes for an unfinished one

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MOST_FRAGMENTS:
            self.frames = []
            self.conn.fail(_TOO_LONG, f"a message comes in at most {MOST_FRAGMENTS} pieces")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.end()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.cut()  # closing would wait for a client to take what it was sent, for ever if it does not

    def watch_message(self) -> None:
        """A message that has begun must end in time, unless it is we who do not read."""
        if (self.frames or not self._between) and not self.read_paused:
            self._reading.begin()
        else:
            self._reading.end()

    def _let_go(self) -> None:
        for deadline in (self._opening, self._reading, self._writing):
            deadline.end()

    def cut(self) -> None:
        """End the connection without a word: nobody reads them."""
        self._let_go()
        self.transport.abort()


class FrameEnds:
    """Follows the frames in a stream of bytes as far as their lengths (RFC 6455, 5.2): the library does not tell."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> bool:
        """Take in what came; whether it ends with the end of a frame."""
        if self._left >= len(data):
            self._left -= len(data)
            return self._left == 0
        rest, at = self._head + data[self._left :], 0
        self._left = 0
        while (size := _frame_size(rest, at)) is not None and at + size <= len(rest):
            at += size
        self._head = b"" if size is not None else rest[at:]
        if size is not None:
            self._left = at + size - len(rest)
        return at == len(rest)


def _frame_size(data: bytes, at: int) -> int | None:
    """Bytes of the frame that begins there; none if too little of it has come to say."""
    if len(data) < at + 2:
        return None
    length, masked = data[at + 1] & 0x7F, data[at + 1] >> 7
    wide = {126: 2, 127: 8}.get(length, 0)
    if len(data) < at + 2 + wide:
        return None
    if wide:
        length = int.from_bytes(data[at + 2 : at + 2 + wide], "big")
    return 2 + wide + 4 * masked + length


def guarded_sockets(settings: ServerSettings, protocol: type[PatientWebSocket]) -> type[PatientWebSocket]:
    """The protocol with its deadlines."""
    deadlines = {"read_timeout": settings.read_timeout, "write_timeout": settings.write_timeout}
    return type("GuardedWebSocket", (protocol,), deadlines)
