"""Open WebSockets by the token that opened them: none of them outlives its token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from headgate.core import events as e
from headgate.engine.aio import AsyncEngine
from headgate.server import tokens
from headgate.server.sockets import Socket

NO_TOKEN = 4401
_LONGEST_TIMER = 24 * 3600.0
"""Seconds; after these the time is looked at anew."""


class Sessions:
    """Closes sockets whose token was revoked, or is past its time."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._open: dict[Socket, asyncio.TimerHandle | None] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.handlers: dict[type[e.Event], Callable[[Any], None]] = {e.DocumentSet: self._document_set}

    def enter(self, socket: Socket) -> None:
        """A socket is open."""
        self._open[socket] = None
        self._look(socket)

    def leave(self, socket: Socket) -> None:
        """It is closed."""
        timer = self._open.pop(socket, None)
        if timer is not None:
            timer.cancel()

    def settle(self, events: Sequence[e.Event]) -> None:
        """Nothing waits for the end of a commit."""

    def restart(self) -> None:
        """The state is another one: so may the tokens be."""
        for socket in list(self._open):
            self._look(socket)

    def _document_set(self, event: e.DocumentSet) -> None:
        if event.kind == tokens.KIND:
            for socket in [socket for socket in self._open if socket.caller.name == event.id]:
                self._look(socket)

    def _look(self, socket: Socket) -> None:
        """Close it if its token is worthless; else look again when its time is over."""
        if socket not in self._open or socket.caller is tokens.LOCAL:
            return
        body = self._engine.writer.state.documents.get((tokens.KIND, socket.caller.name))
        token = None if body is None else tokens.read_token(body)
        left = 0 if token is None else _left(token, self._engine.clock.now())
        if left is None:
            return
        if left <= 0:
            task = asyncio.ensure_future(socket.close(NO_TOKEN, "the token is not valid any more"))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            return
        loop = asyncio.get_running_loop()
        self._open[socket] = loop.call_later(min(left, _LONGEST_TIMER), self._look, socket)


def _left(token: tokens.Token, now: int) -> float | None:
    """Seconds of a token's time; none if it has no end."""
    return None if token.expires_at is None else (token.expires_at - now) / 1000
