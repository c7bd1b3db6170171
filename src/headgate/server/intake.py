"""Taking in bodies: bounded in size, in time, and in what all of them together may hold in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from headgate.core.errors import InvalidInput
from headgate.server.problems import BodyTooLarge, ClientGone, Overloaded, RequestTimeout, UnsupportedEncoding
from headgate.server.routing import Urgency
from headgate.server.settings import ServerSettings

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Intake:
    """Reads bodies and counts who is inside."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.buffered = 0
        self.inside = 0
        self.turned_away = dict.fromkeys(Urgency, 0)

    # -- bodies -------------------------------------------------------------------------------------------------

    async def read(self, receive: Receive, headers: Mapping[bytes, bytes], limit: int | None = None) -> bytes:
        """The whole body; 413 as soon as it is too large, 408 when it takes too long."""
        limit = min(limit or self._settings.max_body, self._settings.max_body)
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise UnsupportedEncoding
        announced = headers.get(b"content-length")
        if announced is not None and _length(announced) > limit:
            raise BodyTooLarge(f"the body has {_length(announced)} bytes, {limit} are allowed", limit=limit)
        message = await receive()  # most bodies come in one piece with their headers
        if message["type"] == "http.request" and not message.get("more_body"):
            return _within(message.get("body", b""), limit)
        return await self._read_on(receive, message, limit)

    async def _read_on(self, receive: Receive, message: MutableMapping[str, Any], limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.read_timeout * 0.9):  # an answer should still reach the client
                while True:
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part = message.get("body", b"")
                    size += len(part)
                    self._buffer(len(part))
                    parts.append(part)
                    if size > limit:
                        raise BodyTooLarge(f"the body has more than {limit} bytes", limit=limit)
                    if not message.get("more_body"):
                        return b"".join(parts)
                    message = await receive()
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {self._settings.read_timeout:g} s") from None
        finally:
            self.buffered -= sum(len(part) for part in parts)

    def _buffer(self, size: int) -> None:
        if self.buffered + size > self._settings.max_buffered:
            raise Overloaded("too many large bodies are arriving at once", retry_after=1_000)
        self.buffered += size

    # -- the crowd ----------------------------------------------------------------------------------------------

    def admit(self, urgency: Urgency) -> None:
        """Turn away the least urgent first: looking, then submitting, then claiming; never a word on a lease."""
        if urgency and self.inside >= self._settings.crowd * (4 - urgency):
            self.turned_away[urgency] += 1
            raise Overloaded(f"{self.inside} requests are in progress", retry_after=1_000)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Whoever only waits does not add to the crowd."""
        self.inside -= 1
        try:
            yield
        finally:
            self.inside += 1


def _length(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18:
        raise InvalidInput("must be a number of bytes", field="Content-Length")
    return int(text)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise BodyTooLarge(f"the body has more than {limit} bytes", limit=limit)
    return body
