"""The service in one process: engine, policies, sampler and server, opened in order and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from headgate.bootstrap import home
from headgate.bootstrap.async_desk import AsyncDesk
from headgate.bootstrap.engine import failpoint, open_store
from headgate.bootstrap.listening import cannot_listen
from headgate.bootstrap.load import host_sampler
from headgate.bootstrap.simulator import ServerSimulator
from headgate.bootstrap.words import say
from headgate.config import Config
from headgate.core.commands import PutDocument
from headgate.core.errors import InvalidSettings
from headgate.engine.aio import AsyncEngine
from headgate.engine.errors import EngineStopped
from headgate.engine.forecast import Forecast
from headgate.engine.writer import Writer
from headgate.policy.arms import ExperimentingEngine
from headgate.policy.managing import Policies
from headgate.policy.watching import FileWatcher, Reloaded
from headgate.ports import Store
from headgate.server import tokens
from headgate.server.app import make_app
from headgate.server.serving import Serving
from headgate.stores.sqlite import SqliteStore
from headgate.system import SystemChance, SystemClock, SystemIds, stopwatch

_SETTLE = 2_000
"""Milliseconds of the first look at the machine: shorter, and the start of our own workers would pass for load."""
_SAY_AFTER = 1.0
"""Seconds after which a standby says that it waits."""
WORKERS = "workers of headgate up"
"""The note of the token that local workers get; a new one at every start."""


class Served(msgspec.Struct):
    """What runs."""

    engine: AsyncEngine
    ids: SystemIds
    policies: Policies
    serving: Serving
    database: str
    worker_token: str | None = None

    @property
    def deciding(self) -> str:
        """The policy in charge."""
        return self.policies.status().active or "platform"


@contextlib.asynccontextmanager
async def open_service(config: Config, enough: asyncio.Event | None = None) -> AsyncIterator[Served]:
    """Everything that serves, in numbered steps; what was opened is closed in reverse.

    `enough` ends the wait of a standby, with `EngineStopped`.
    """
    async with contextlib.AsyncExitStack() as stack:
        clock, chance = SystemClock(), SystemChance()
        # 1. the engine on its store
        store = open_store(config.database_url, server=True)
        _make_room(store)
        deciding = ExperimentingEngine(config.policy)
        stack.callback(deciding.stop)
        writer = Writer(store, deciding, chance, config.core, failpoint=failpoint())
        Forecast(writer)
        engine = AsyncEngine(writer, clock, stopwatch=stopwatch)
        stack.push_async_callback(engine.stop)
        await _lead(engine, config, enough or asyncio.Event())
        # 2. what feeds the gate
        if config.load.rating == "measured":
            await stack.enter_async_context(_sampling(engine, config))
        # 3. the policy file: what is decided from the first request on
        policies = Policies(AsyncDesk(engine, asyncio.get_running_loop()), deciding, clock.now)
        if config.policy.file is not None:
            await stack.enter_async_context(_watching(policies, Path(config.policy.file)))
        # 4. the server
        ids = SystemIds(clock, chance)
        simulator = ServerSimulator(engine, config.server)
        serving = Serving(make_app(engine, policies, config.server, ids=ids, simulator=simulator))
        stack.push_async_callback(serving.stop)
        await _listen(serving, config)
        served = Served(engine, ids, policies, serving, store.name)
        if config.server.auth:
            served.worker_token = await _admit_workers(engine)
        yield served


async def _lead(engine: AsyncEngine, config: Config, enough: asyncio.Event) -> None:
    """Become the owner of the database; a standby says what it waits for."""
    if not config.standby:
        await engine.start()
        return
    starting, asked = asyncio.ensure_future(engine.start(standby=True)), asyncio.ensure_future(enough.wait())
    try:
        for patience in (_SAY_AFTER, None):
            done, _ = await asyncio.wait({starting, asked}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                say(f"standing by: {engine.problem}; Ctrl-C ends the wait")
        if not starting.done():
            raise EngineStopped("the server was stopped while it stood by")
        await starting
    finally:
        for waiting in (starting, asked):
            waiting.cancel()
        await asyncio.gather(starting, asked, return_exceptions=True)


async def _listen(serving: Serving, config: Config) -> None:
    try:
        await serving.start()
    except InvalidSettings as error:
        if error.field != "port":
            raise
        raise cannot_listen(error, config.server.host, config.server.port) from error


def _make_room(store: Store) -> None:
    """The directory of a database file; the file itself is made by the store, unless there is damage to report."""
    if isinstance(store, SqliteStore):
        home.prepare(str(store.path.parent))


async def _admit_workers(engine: AsyncEngine) -> str:
    """A fresh token for the workers: what a killed parent left behind is worthless."""
    documents = engine.read(lambda state: dict(state.documents))
    for (kind, id_), body in documents.items():
        if kind == tokens.KIND and tokens.read_token(body).note == WORKERS:
            await engine.do(PutDocument(tokens.KIND, id_, None))
    secret = tokens.new_secret()
    await tokens.keep_token(engine, secret, ("work",), note=WORKERS)
    return secret


@contextlib.asynccontextmanager
async def _sampling(engine: AsyncEngine, config: Config) -> AsyncIterator[None]:
    load = config.load
    sampler = host_sampler(
        engine, config.core, engine.clock, disk=load.disk, applications=load.applications, warm_up=_SETTLE
    )
    task = asyncio.get_running_loop().create_task(sampler.run_async(engine), name="headgate-sampler")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def _watching(policies: Policies, path: Path) -> AsyncIterator[None]:
    """Follow a policy file. One that is broken at the start is refused; later, it is said and changes nothing."""
    watcher = FileWatcher(policies, path, _reloaded)
    await asyncio.to_thread(watcher.start)
    try:
        yield
    finally:
        await asyncio.to_thread(watcher.stop)


def _reloaded(outcome: Reloaded) -> None:
    text = f"{outcome.version} decides from now on" if outcome.version else f"not deployed: {outcome.problem}"
    say(f"{outcome.path}: {text}")
