"""A server in this process, and clients of it that read like the domain."""

from __future__ import annotations

import asyncio
import socket as sockets
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
from websockets.sync.client import ClientConnection, connect

from headgate.bootstrap.async_desk import AsyncDesk
from headgate.bootstrap.simulator import ServerSimulator
from headgate.core.ordering import FirstFit, Policy
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.engine.aio import AsyncEngine
from headgate.engine.forecast import Forecast
from headgate.engine.writer import Writer
from headgate.policy.deciding import PolicyEngine
from headgate.policy.managing import Policies
from headgate.policy.stopwatch import seconds
from headgate.ports import Store
from headgate.server import tokens
from headgate.server.app import App, make_app
from headgate.server.serving import Serving
from headgate.server.settings import ServerSettings
from headgate.stores.memory import MemoryStore
from headgate.system import SystemChance, SystemClock, SystemIds

R = TypeVar("R")
WITHIN = 20.0
"""Seconds that a test waits for something that should come at once."""


class World:
    """One server with its engine; everything that touches the engine runs on its loop."""

    def __init__(
        self,
        directory: Path,
        *,
        core: dict[str, Any] | None = None,
        store: Store | None = None,
        policy: PolicyEngine | None = None,
        **settings: Any,
    ) -> None:
        self.directory = directory
        self.core = Settings(**{"fixed_busy": 0, "total_units": 1_000, **(core or {})})
        self.store = store or MemoryStore()
        self.deciding = policy
        given: dict[str, Any] = {"port": 0, "token_file": str(directory / "token"), **settings}
        self.settings = ServerSettings(**given)
        self._thread = threading.Thread(target=self._run, name="server-under-test", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self.app: App
        self.engine: AsyncEngine
        self.serving: Serving
        self.loop: asyncio.AbstractEventLoop

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> World:
        self._thread.start()
        assert self._started.wait(WITHIN)
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(WITHIN)
            assert not self._thread.is_alive(), "the server does not end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        clock, chance = SystemClock(), SystemChance()
        policy: Policy = self.deciding or FirstFit()
        writer = Writer(self.store, policy, chance, self.core)
        Forecast(writer)
        self.engine = AsyncEngine(writer, clock, stopwatch=seconds)
        try:
            async with self.engine:
                policies = None
                if self.deciding is not None:
                    policies = Policies(AsyncDesk(self.engine, self.loop), self.deciding, clock.now)
                simulator = ServerSimulator(self.engine, self.settings)
                ids = SystemIds(clock, chance)
                self.app = make_app(self.engine, policies, self.settings, ids=ids, simulator=simulator)
                async with Serving(self.app) as self.serving:
                    self._started.set()
                    await self._stop.wait()
        finally:
            if self.deciding is not None:
                self.deciding.stop()

    # -- from outside the loop ----------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WITHIN)

    def read(self, question: Callable[[State], R]) -> R:
        async def ask() -> R:
            return self.engine.read(question)

        return self.run(ask())

    def wait_for(self, question: Callable[[State], Any]) -> Any:
        """Wait until the state answers the question with something true."""
        found = self.run(self.engine.wait_for(question, WITHIN))
        assert found, "it did not come to pass"
        return found

    @property
    def url(self) -> str:
        return self.serving.url

    @property
    def token(self) -> str:
        assert self.serving.token is not None
        return self.serving.token

    def token_for(self, *scopes: Any, tenant: str | None = None) -> str:
        """A new token."""
        secret = tokens.new_secret()
        self.run(tokens.keep_token(self.engine, secret, scopes, tenant=tenant))
        return secret

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.serving.port}"

    def client(self, token: str | None = "", **options: Any) -> httpx.Client:
        """An HTTP client; as admin unless said otherwise."""
        headers = dict(options.pop("headers", {}))
        if token is not None and self.settings.auth:
            headers["Authorization"] = f"Bearer {token or self.token}"
        return httpx.Client(base_url=self.url, headers=headers, timeout=WITHIN, **options)

    @contextmanager
    def socket(self, path: str, token: str | None = "", **options: Any) -> Iterator[Talk]:
        """A WebSocket client."""
        headers = dict(options.pop("headers", {}))
        if token is not None and self.settings.auth:
            headers["Authorization"] = f"Bearer {token or self.token}"
        address = self.url.replace("http://", "ws://") + path
        with connect(address, additional_headers=headers, open_timeout=WITHIN, **options) as connection:
            yield Talk(connection)

    def raw(self, method: str, path: str, *headers: str, end: bool = True) -> sockets.socket:
        """A connection on which a request has begun: its head was sent, as admin."""
        connection = sockets.create_connection(("127.0.0.1", self.serving.port), timeout=WITHIN)
        first = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.serving.port}",
            f"Authorization: Bearer {self.token}",
        ]
        connection.sendall("\r\n".join([*first, *headers, "\r\n" if end else ""]).encode())
        return connection


class Talk:
    """A conversation in JSON."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def say(self, **message: Any) -> None:
        self.connection.send(msgspec.json.encode(message).decode())

    def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message, of one of the kinds: others are let pass."""
        while True:
            message: dict[str, Any] = msgspec.json.decode(self.connection.recv(timeout=WITHIN))
            if not kinds or message["type"] in kinds:
                return message
