"""The service in one process: store, engine, policies, sampler and server, opened in this order and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from headgate.bootstrap import home
from headgate.bootstrap.async_desk import AsyncDesk
from headgate.bootstrap.engine import failpoint, open_store
from headgate.bootstrap.load import host_sampler
from headgate.bootstrap.words import say
from headgate.config import Config, ConfigError
from headgate.core.commands import PutDocument
from headgate.core.errors import InvalidSettings
from headgate.engine.aio import AsyncEngine
from headgate.engine.writer import Writer
from headgate.policy.deciding import PolicyEngine
from headgate.policy.managing import Policies
from headgate.policy.watching import FileWatcher, Reloaded
from headgate.ports import Store
from headgate.server import tokens
from headgate.server.settings import ServerSettings, check_server_settings
from headgate.stores.sqlite import SqliteStore
from headgate.system import SystemChance, SystemClock, SystemIds, stopwatch

WORKERS = "workers of headgate up"
"""The note of the token that local workers get; a new one at every start."""


class Served(msgspec.Struct):
    """What runs."""

    engine: AsyncEngine
    ids: SystemIds
    policies: Policies
    database: str
    admin_token: str | None = None
    worker_token: str | None = None
    failed: str | None = None
    """Why it ended by itself, if it did."""

    @property
    def deciding(self) -> str:
        """The policy in charge."""
        active = self.policies.status().active
        return active or "platform"


def check_config(config: Config) -> ServerSettings:
    """Refuse what would leave the door open, before anything is made."""
    try:
        return check_server_settings(config.server)
    except InvalidSettings as error:
        raise ConfigError(str(error), field=f"server.{error.field}") from None


@contextlib.asynccontextmanager
async def open_service(
    config: Config, bound: socket.socket, directory: Path, ended: Callable[[], None]
) -> AsyncIterator[Served]:
    """Everything that serves; `ended` is called where it ends by itself."""
    async with contextlib.AsyncExitStack() as stack:
        clock, chance = SystemClock(), SystemChance()
        store = open_store(config.database_url)
        deciding = PolicyEngine(config.policy)
        stack.callback(deciding.stop)
        writer = Writer(store, deciding, chance, config.core, failpoint=failpoint())
        engine = AsyncEngine(writer, clock, stopwatch=stopwatch)
        _make_room(store)
        await engine.start()
        stack.push_async_callback(engine.stop)
        policies = Policies(AsyncDesk(engine, asyncio.get_running_loop()), deciding, clock.now)
        served = Served(engine, SystemIds(clock, chance), policies, store.name)
        await _admit(config, directory, served)
        if config.load.rating == "measured":
            await stack.enter_async_context(_sampling(engine, config))
        await stack.enter_async_context(_serving(config, served, bound, ended))
        if config.policy.file is not None:
            await stack.enter_async_context(_watching(policies, Path(config.policy.file)))
        yield served


def _make_room(store: Store) -> None:
    """The directory of a database file; the file itself is made by the store, unless there is damage to report."""
    if isinstance(store, SqliteStore):
        home.prepare(str(store.path.parent))


async def _admit(config: Config, directory: Path, served: Served) -> None:
    """The admin's token, and a fresh one for the workers: what a killed parent left behind is worthless."""
    if not config.server.auth:
        return
    engine = served.engine
    served.admin_token = await tokens.admit_admin(engine, directory / home.TOKEN)
    documents = engine.read(lambda state: dict(state.documents))
    for (kind, id_), body in documents.items():
        if kind == tokens.KIND and tokens.read_token(body).note == WORKERS:
            await engine.do(PutDocument(tokens.KIND, id_, None))
    served.worker_token = tokens.new_secret()
    await tokens.keep_token(engine, served.worker_token, ("work",), note=WORKERS)


@contextlib.asynccontextmanager
async def _sampling(engine: AsyncEngine, config: Config) -> AsyncIterator[None]:
    sampler = host_sampler(engine, disk=config.load.disk, applications=config.load.applications)
    task = asyncio.get_running_loop().create_task(sampler.run_async(engine), name="headgate-sampler")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def _watching(policies: Policies, path: Path) -> AsyncIterator[None]:
    """Follow a policy file. One that is broken at the start is said and changes nothing."""
    watcher = FileWatcher(policies, path, _reloaded)
    await asyncio.to_thread(watcher.start)
    try:
        yield
    finally:
        await asyncio.to_thread(watcher.stop)


def _reloaded(outcome: Reloaded) -> None:
    text = f"{outcome.version} decides from now on" if outcome.version else f"not deployed: {outcome.problem}"
    say(f"{outcome.path}: {text}")
