"""Messages of the Debug Adapter Protocol: a header with a length, a blank line, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_LONGEST = 16 << 20
_LONGEST_HEADER = 4096
Message = dict[str, Any]


class ProtocolError(ValueError):
    """What came is not the Debug Adapter Protocol."""


class Inbox:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def push(self, data: bytes) -> Iterator[Message]:
        """Add bytes as they came; every whole message."""
        self._data += data
        while (message := self._pop()) is not None:
            yield message

    def _pop(self) -> Message | None:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > _LONGEST_HEADER:
                raise ProtocolError("no header in sight; is this a debug client?")
            return None
        length = _length(bytes(self._data[:end]))
        if len(self._data) < end + 4 + length:
            return None
        body = bytes(self._data[end + 4 : end + 4 + length])
        del self._data[: end + 4 + length]
        return _decode(body)


def _length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
            if length > _LONGEST:
                raise ProtocolError(f"a message of {length} bytes is longer than allowed")
            return length
    raise ProtocolError("a header without Content-Length")


def _decode(body: bytes) -> Message:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ProtocolError("a message has to be an object")
    return found


def frame(message: Message) -> bytes:
    """A message as it travels."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n" % len(body) + body
