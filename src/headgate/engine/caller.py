"""A connection to the owner: one request at a time, answered by whichever thread has the answer."""

from __future__ import annotations

import select
import socket
import threading
from typing import Any

from headgate.engine import wire
from headgate.engine.vigils import Vigil


class Caller:
    """Nobody waits for it: what the connection does not take at once is sent when it does."""

    def __init__(self, connection: socket.socket, epoll: select.epoll) -> None:
        self.number = connection.fileno()
        self.workers: set[str] = set()
        """Those that spoke here."""
        self.vigil: Vigil[Any] | None = None
        """What it waits for."""
        self._connection = connection
        self._channel = wire.Channel(connection)
        self._epoll = epoll
        self._asking = False
        self._rest: memoryview | None = None
        self._lock = threading.Lock()
        """A number that is closed may be somebody else's at once: nobody sends to it meanwhile."""
        epoll.register(self.number, select.EPOLLIN)

    def receive(self) -> memoryview | None:
        """The next request; none if the connection has ended, `BlockingIOError` if it is not there yet."""
        frame = self._channel.receive()
        if frame is not None and (self._asking or self._channel.ahead):
            raise ConnectionError("a caller waits for its answer before it asks again")
        self._asking = frame is not None
        return frame

    def answer(self, frame: bytes) -> None:
        """Send the answer; to one that is gone it is not sent, and the loop hears of that by itself."""
        self.vigil = None
        self._asking = False
        with self._lock:
            if self._connection.fileno() >= 0:
                self._send(memoryview(wire.framed(frame)))

    def send_rest(self) -> None:
        """There is room again."""
        with self._lock:
            if self._rest is not None:
                self._send(self._rest)

    def close(self) -> None:
        """Answer no more."""
        with self._lock:
            self._epoll.unregister(self.number)
            self._connection.close()

    def _send(self, data: memoryview) -> None:
        try:
            sent = self._connection.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return
        rest = data[sent:] if sent < len(data) else None
        if (rest is None) != (self._rest is None):
            self._epoll.modify(self.number, select.EPOLLIN | (select.EPOLLOUT if rest is not None else 0))
        self._rest = rest
