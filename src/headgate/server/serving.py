"""Serving: a socket, uvicorn on the running loop, and an end within seconds."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path
from typing import Self

import uvicorn

from headgate.core.errors import InvalidSettings
from headgate.server.app import App
from headgate.server.protocol import guarded
from headgate.server.settings import ServerSettings
from headgate.server.tokens import admit_admin
from headgate.server.websocket_protocol import guarded_sockets
from headgate.server.wires import Wire

BACKLOG = 2_048
"""Connections that may wait to be accepted."""
AT_ONCE = 16
"""Connections that the loop accepts before it looks at anything else: a storm of them must not hold up those inside."""
SPARE_FILES = 256
"""Open files that are kept for everything but connections: the store, policies, logs."""


class Serving:
    """A server on the running loop: `async with Serving(app) as serving: ... serving.url`.

    A socket that is bound already can be handed in; otherwise the address of the settings is bound at the start.
    """

    def __init__(self, app: App, bound: socket.socket | None = None) -> None:
        self.app = app
        self.settings: ServerSettings = app.service.settings
        self.token: str | None = None
        """The admin token, where there is a file for it."""
        self.port = self.settings.port
        self._socket = bound
        self._server: uvicorn.Server | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        host = self.settings.host
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        return f"http://{shown}:{self.port}"

    @property
    def url_with_token(self) -> str:
        """The same for a browser: the token is in the fragment, which is never sent to a server."""
        return self.url if self.token is None else f"{self.url}/#token={self.token}"

    async def start(self) -> Self:
        """Bind, admit the first admin, and serve. Returns when requests are answered."""
        if self._socket is None:
            self._socket = bind(self.settings.host, self.settings.port)
        self.port = self._socket.getsockname()[1]
        if self.settings.auth and self.settings.token_file is not None:
            self.token = await admit_admin(self.app.service.engine, Path(self.settings.token_file))
        self._server = _Quiet(self._config())
        self._running = asyncio.create_task(self._server.serve([self._socket]), name="headgate-http")
        started = asyncio.create_task(self._server.is_started.wait())
        await asyncio.wait({started, self._running}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._running.done():
            await self._running
        self._socket.listen(BACKLOG)  # asyncio takes one number for how many may wait and how many it accepts in a row
        return self

    async def wait(self) -> None:
        """Until it has stopped."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def stop(self) -> None:
        """Take no new connections, end streams and long polls, answer what is in progress, and end."""
        if self._server is None or self._running is None:
            return
        self._server.should_exit = True
        await self.app.service.stop()
        await self._running
        if self._socket is not None:
            self._socket.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _config(self) -> uvicorn.Config:
        settings = self.settings
        return uvicorn.Config(
            self.app,
            http=guarded(settings, most_connections(settings.max_connections)),
            ws=guarded_sockets(settings, Wire),
            ws_max_size=settings.max_body,
            ws_per_message_deflate=False,
            ws_ping_interval=20.0,
            ws_ping_timeout=20.0,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=AT_ONCE,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace)),
        )


class _Quiet(uvicorn.Server):
    """Signals belong to whoever started us, and starting is something to wait for."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_started.set()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await self._serve(sockets)


def most_connections(wanted: int) -> int:
    """As many connections as are wanted, or as the files allow that this process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - SPARE_FILES))


def bind(host: str, port: int) -> socket.socket:
    """A listening address; `InvalidSettings` says why it cannot be had."""
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((name, port))
    except OSError as error:
        listener.close()
        raise InvalidSettings(f"{host}:{port} cannot be had: {error.strerror}", field="port") from error
    listener.setblocking(False)
    return listener


async def serve(app: App, stop: asyncio.Event, bound: socket.socket | None = None) -> None:
    """Serve until `stop` is set."""
    async with Serving(app, bound) as serving:
        stopping = asyncio.create_task(stop.wait())
        running = asyncio.create_task(serving.wait())
        await asyncio.wait({stopping, running}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, running):
            task.cancel()
