"""ASGI and WSGI middleware that reports an application's requests. It changes neither requests nor replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any

from headgate.load.api import RECORDER, ApiRecorder

Stopwatch = Callable[[], float]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_SERVER_ERROR = 500


class AsgiLoad:
    """Wraps an ASGI application. Latency is the time to the first byte of the reply: a long stream is not a slow one.

    Without a `stopwatch` the time of the running event loop is taken.
    """

    def __init__(self, app: AsgiApp, recorder: ApiRecorder = RECORDER, stopwatch: Stopwatch | None = None) -> None:
        self._app = app
        self._recorder = recorder
        self._stopwatch = stopwatch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or a connection of another kind, which is passed through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seconds = self._stopwatch or asyncio.get_running_loop().time
        request = _Request(self._recorder, seconds)

        async def watched(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                request.replied(message["status"] >= _SERVER_ERROR)
            await send(message)

        with self._recorder.in_flight():
            try:
                await self._app(scope, receive, watched)
            except Exception:
                request.replied(error=True)
                raise


class WsgiLoad:
    """Wraps a WSGI application. Latency is the time to the start of the reply."""

    def __init__(self, app: WsgiApp, stopwatch: Stopwatch, recorder: ApiRecorder = RECORDER) -> None:
        self._app = app
        self._recorder = recorder
        self._stopwatch = stopwatch

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """One request; it is in flight until its body has been sent or given up."""
        request = _Request(self._recorder, self._stopwatch)

        def watched(status: str, *rest: Any) -> Any:
            request.replied(int(status[:3]) >= _SERVER_ERROR)
            return start_response(status, *rest)

        self._recorder.begin()
        try:
            body = self._app(environ, watched)
        except Exception:
            request.replied(error=True)
            self._recorder.end()
            raise
        return _Body(body, request, self._recorder)


class _Request:
    """One request: it is counted once, by the first word on how it went."""

    def __init__(self, recorder: ApiRecorder, stopwatch: Stopwatch) -> None:
        self._recorder = recorder
        self._stopwatch = stopwatch
        self._began = stopwatch()
        self._counted = False

    def replied(self, error: bool) -> None:
        """The reply begins, or never will."""
        if not self._counted:
            self._counted = True
            self._recorder.observe(max(0.0, self._stopwatch() - self._began), error)


class _Body:
    """The body of a WSGI reply; the server closes it when it is sent."""

    def __init__(self, body: Iterable[bytes], request: _Request, recorder: ApiRecorder) -> None:
        self._body = body
        self._request = request
        self._recorder = recorder
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except Exception:
            self._request.replied(error=True)
            raise

    def close(self) -> None:
        """The reply has been sent, or the client has gone."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            if self._open:
                self._open = False
                self._recorder.end()
