"""A WebSocket as the calls see it: text in, text out, and a client that does not read is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import msgspec

from headgate.server.intake import Receive
from headgate.server.problems import ClientGone
from headgate.server.tokens import Caller
from headgate.server.wires import Wire

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_encode = msgspec.json.Encoder().encode
SUBPROTOCOL = "headgate"
_REASON = 120
"""Bytes of the reason for a close."""


class Socket:
    """One connection."""

    def __init__(
        self,
        wire: Wire,
        receive: Receive,
        send: Send,
        caller: Caller,
        params: dict[str, str],
        query: Any,
        write_timeout: float,
    ) -> None:
        self.wire = wire
        self._receive = receive
        self._send = send
        self._write_timeout = write_timeout
        self.caller = caller
        self.params = params
        self.query = query
        self.offered: list[str] = []
        self.closed = False

    async def accept(self) -> None:
        """Let the client in."""
        chosen = SUBPROTOCOL if SUBPROTOCOL in self.offered else None
        await self._send({"type": "websocket.accept", "subprotocol": chosen, "headers": []})

    async def receive(self) -> bytes | None:
        """The next message; none at the end."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self.closed = True
            return None
        text = message.get("text")
        return text.encode() if text is not None else bytes(message.get("bytes") or b"")

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message; `ClientGone` if the client does not take it in time."""
        if not self.wire.ready:
            await self.drained()
        self.write([message])

    def write(self, messages: Iterable[msgspec.Struct]) -> None:
        """Send messages now, whether the client keeps up (`wire.ready`) or not; `ClientGone` if it has gone."""
        if self.closed:
            raise ClientGone
        self.wire.write(_encode(message) for message in messages)

    async def drained(self) -> None:
        """Wait until the client has taken what it was sent; one that does not in time is cut off: `ClientGone`."""
        try:
            async with asyncio.timeout(self._write_timeout):
                await self.wire.writable.wait()
        except TimeoutError:
            self.closed = True
            self.wire.cut()
            raise ClientGone("the client does not read what it is sent") from None

    async def close(self, code: int, reason: str) -> None:
        """End the connection; ending twice is the same as once."""
        if self.closed:
            return
        self.closed = True
        try:
            async with asyncio.timeout(self._write_timeout):
                await self._send({"type": "websocket.close", "code": code, "reason": short(reason)})
        except (OSError, RuntimeError):  # gone already
            return
        except TimeoutError:
            self.wire.cut()


def short(reason: str) -> str:
    """As much of a reason as fits where 123 bytes do."""
    return reason.encode("utf-8", "replace")[:_REASON].decode("utf-8", "ignore")
