"""Frames between the engine, the policy host and its child: length, kind, payload, over a stream socket.

The engine's end never blocks: what the kernel does not take stays in a bounded buffer.
"""

from __future__ import annotations

import socket
import struct

_HEAD = struct.Struct("<IB")
MAX_FRAME = 256 << 20
MAX_REPLY = 8 << 20

HELLO, FEED, ASK, ANSWER, LOAD, FORK, FORKED = b"HFQALKC"


class WireError(ConnectionError):
    """The other side spoke nonsense or left."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return _HEAD.pack(len(payload), kind) + payload


class Inbox:
    """Cuts a byte stream into frames."""

    def __init__(self, limit: int) -> None:
        self._data = bytearray()
        self._limit = limit

    def push(self, data: bytes) -> None:
        """Add bytes as they came."""
        self._data += data

    def pop(self) -> tuple[int, bytes] | None:
        """The next whole frame, if there is one."""
        if len(self._data) < _HEAD.size:
            return None
        length, kind = _HEAD.unpack_from(self._data)
        if length > self._limit:
            raise WireError(f"a frame of {length} bytes is longer than allowed")
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        payload = bytes(self._data[_HEAD.size : end])
        del self._data[:end]
        return kind, payload


class Channel:
    """The engine's end of a connection: never blocks, in neither direction. Only the host may hand over
    descriptors.
    """

    def __init__(self, sock: socket.socket, *, takes_fds: bool = False) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.fds: list[int] = []
        self.closed = False
        self._takes_fds = takes_fds
        self._inbox = Inbox(MAX_REPLY)
        self._out = bytearray()

    def fileno(self) -> int:
        """For pollers."""
        return self.sock.fileno()

    @property
    def unsent(self) -> int:
        """Bytes that the other side has not taken yet."""
        return len(self._out)

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Hand over a frame; what does not go out now goes out by `pump`."""
        data = frame(kind, payload)
        if not self._out:
            data = data[self._try(data) :]
        self._out += data

    def pump(self) -> None:
        """Send more of what is left."""
        while self._out and (sent := self._try(bytes(self._out[: 1 << 18]))):
            del self._out[:sent]

    def _try(self, data: bytes) -> int:
        try:
            return self.sock.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError:
            self.closed = True
            return len(data)

    def receive(self) -> list[tuple[int, bytes]]:
        """All whole frames that have arrived; sets `closed` at the end of the stream."""
        try:
            while True:
                data = self._read()
                if not data:
                    self.closed = True
                    break
                self._inbox.push(data)
                if len(data) < 1 << 16:
                    break
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        frames = []
        while (item := self._inbox.pop()) is not None:
            frames.append(item)
        return frames

    def _read(self) -> bytes:
        if not self._takes_fds:
            return self.sock.recv(1 << 16)
        data, fds, _flags, _address = socket.recv_fds(self.sock, 1 << 16, 4)
        self.fds += fds
        return data

    def close(self) -> None:
        """Let go of the socket."""
        self.closed = True
        self.sock.close()


class Server:
    """The host's and the child's end: blocking, one peer."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        self.sock = sock
        self._inbox = Inbox(MAX_FRAME)

    def next(self) -> tuple[int, bytes] | None:
        """Wait for the next frame; nothing when the engine has left."""
        while (item := self._inbox.pop()) is None:
            data = self.sock.recv(1 << 18)
            if not data:
                return None
            self._inbox.push(data)
        return item

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Send one frame, waiting for the engine to take it."""
        self.sock.sendall(frame(kind, payload))
