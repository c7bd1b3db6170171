"""Frames of the local socket: length, then msgpack. Commands and questions are tagged; answers are typed by them.

The first byte of an answer says whether it is a reply or an error.
"""

from __future__ import annotations

import socket
import struct
from functools import reduce
from operator import or_
from typing import Any, get_args

import msgspec

from headgate.core import commands as c
from headgate.core.errors import HeadgateError
from headgate.core.retention import Retention
from headgate.engine import questions as q
from headgate.engine import working as working  # noqa: PLC0414 - its questions travel too
from headgate.ports import Compacted

LARGEST = 256 << 20
_LENGTH = struct.Struct(">I")
_PIECE = 1 << 16
_GOOD, _BAD = b"\x00", b"\x01"


class WaitEnd(q.Question[bool], frozen=True, tag=True):
    """Wait until a job has ended, at most so many seconds; false if it has not."""

    job_id: str
    within: float


class Compact(q.Question[Compacted], frozen=True, tag=True):
    """Delete everything older than the given ages. A question to the owner's own commits, not to the core."""

    retention: Retention


class Failed(msgspec.Struct, frozen=True):
    """A typed error on its way to the caller."""

    code: str
    message: str
    details: dict[str, Any]


def _reply_type(request: type) -> Any:
    return get_args(request.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # every request is generic


REQUESTS: dict[type, Any] = {
    kind: _reply_type(kind) for kind in [*c.Command.__subclasses__(), *q.Question.__subclasses__()]
}
_REQUEST: Any = reduce(or_, REQUESTS)
_requests = msgspec.msgpack.Decoder(_REQUEST)
_failed = msgspec.msgpack.Decoder(Failed)
_replies = {kind: msgspec.msgpack.Decoder(reply) for kind, reply in REQUESTS.items()}
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode


def _tree(root: type[HeadgateError]) -> dict[str, type[HeadgateError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


def encode_request(request: c.Command[Any] | q.Question[Any]) -> bytes:
    """A request as bytes."""
    return _encode(request)


def decode_request(frame: bytes | memoryview) -> c.Command[Any] | q.Question[Any]:
    """A request from bytes."""
    return _requests.decode(frame)  # type: ignore[no-any-return]


def encode_reply(reply: object) -> bytes:
    """A good answer as bytes."""
    return _GOOD + _encode(reply)


def encode_error(error: Exception) -> bytes:
    """An error as bytes; one that is not ours is said to be internal."""
    if isinstance(error, HeadgateError):
        return _BAD + _encode(Failed(error.code, str(error), error.details))
    return _BAD + _encode(Failed("error", f"{type(error).__name__}: {error}", {}))


def decode_answer(request: c.Command[Any] | q.Question[Any], frame: bytes | memoryview) -> Any:
    """The reply of the request's type, or the error raised."""
    if frame[0] != _GOOD[0]:
        raise rebuild(_failed.decode(frame[1:]))
    return _replies[type(request)].decode(frame[1:])


def rebuild(failed: Failed) -> HeadgateError:
    """The same error on this side of the socket."""
    kind = _tree(HeadgateError).get(failed.code, HeadgateError)
    error = kind.__new__(kind)
    HeadgateError.__init__(error, failed.message, **failed.details)
    return error


def framed(frame: bytes) -> bytes:
    """A frame as it travels."""
    return _LENGTH.pack(len(frame)) + frame


class Channel:
    """Frames over a connection. Most come in one piece: then one costs one call to the system, and no copy.

    On a connection that does not wait, `BlockingIOError` says that a frame is not there yet; what has come is kept.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.ahead: bytes | bytearray = b""
        """What came behind the last frame."""

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        self.connection.sendall(framed(frame))

    def receive(self) -> memoryview | None:
        """Receive one frame; none at the end."""
        while len(self.ahead) < (end := self._end()):
            part = self.connection.recv(max(_PIECE, min(end - len(self.ahead), 1 << 20)))
            if not part:
                return None
            self._add(part)
        data, self.ahead = self.ahead, bytes(self.ahead[end:])
        return memoryview(data)[_LENGTH.size : end]

    def _end(self) -> int:
        """Where the frame ends, as far as is known."""
        if len(self.ahead) < _LENGTH.size:
            return _LENGTH.size
        end = _LENGTH.size + int(_LENGTH.unpack_from(self.ahead)[0])
        if end > LARGEST:
            raise ConnectionError(f"a frame of {end} bytes is too large")
        return end

    def _add(self, part: bytes) -> None:
        if not self.ahead:
            self.ahead = part
        elif isinstance(self.ahead, bytearray):
            self.ahead += part
        else:
            self.ahead = bytearray(self.ahead + part)
