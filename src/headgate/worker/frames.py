"""Messages between a worker and its warm processes: a length, then msgpack."""

from __future__ import annotations

import socket
import struct

import msgspec

from headgate.wire.http import ErrorOut
from headgate.worker.assignment import Assignment

_LENGTH = struct.Struct(">I")


class Said(msgspec.Struct):
    """From the warm process: how far it is, or at the end the result or the error."""

    done: bool = False
    result: bytes = b"null"
    error: ErrorOut | None = None
    retry: bool = True
    fraction: float | None = None
    note: str = ""


_assignments = msgspec.msgpack.Decoder(Assignment)
_said = msgspec.msgpack.Decoder(Said)
_encode = msgspec.msgpack.Encoder().encode


def send(connection: socket.socket, message: Assignment | Said) -> None:
    """Send one message."""
    frame = _encode(message)
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def receive_assignment(connection: socket.socket) -> Assignment | None:
    """The next job; none at the end."""
    frame = _receive(connection)
    return None if frame is None else _assignments.decode(frame)


def receive_said(connection: socket.socket) -> Said | None:
    """The next word of the warm process; none if it is gone."""
    frame = _receive(connection)
    return None if frame is None else _said.decode(frame)


def _receive(connection: socket.socket) -> bytes | None:
    try:
        head = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        parts = bytearray()
        while len(parts) < length:
            part = connection.recv(length - len(parts))
            if not part:
                return None
            parts += part
    except ConnectionError:
        return None
    return bytes(parts)
