"""`headgate.App`: one object for jobs, leases and workers, embedded or remote."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, Self, TypeVar

from headgate.app.opening import Home, open_home
from headgate.app.processes import WorkerProcesses
from headgate.app.remote import open_remote
from headgate.client.addresses import plain_address
from headgate.client.connection import Connection
from headgate.client.functions import JobFunction, job_fields
from headgate.client.hops import Inline, Threaded
from headgate.client.sdk import AsyncCalls, Calls
from headgate.core.errors import InvalidInput, InvalidJob
from headgate.core.job_input import parse_job
from headgate.core.settings import Settings
from headgate.load.middleware import AsgiApp, AsgiLoad, WsgiApp, WsgiLoad
from headgate.system import SystemChance, SystemClock, SystemIds, stopwatch
from headgate.wire.http import WorkerIn
from headgate.worker.executors import Executors, Isolation
from headgate.worker.handlers import Handlers
from headgate.worker.runtime import Options, Runtime
from headgate.worker.sources import locate

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_PATH = ".headgate/headgate.db"
GENERIC = "generic"


class AsyncApp(AsyncCalls):
    """The app for coroutines: every call of `App`, to be awaited. It is had as `app.aio`."""


class App(Calls):
    """Jobs, leases and workers.

    `address` is a path, `memory://`, `postgresql://...`, or `http://host:port` of a server; none: `HEADGATE_URL`, else
    `.headgate/` in the working directory. `load` is "measured", or a fixed rating from 0 (idle) to 10 (nothing starts).
    Nothing is opened before it is needed.
    """

    def __init__(
        self,
        address: str | os.PathLike[str] | None = None,
        *,
        load: str | float = "measured",
        settings: Settings | None = None,
        token: str | None = None,
    ) -> None:
        self.settings = settings
        self.handlers = Handlers()
        said = os.environ.get("HEADGATE_URL") or DEFAULT_PATH
        self._address = plain_address(said, "HEADGATE_URL") if address is None else plain_address(address)
        self._load = load
        self._token = token
        self._clock = SystemClock()
        self._chance = SystemChance()
        self._ids = SystemIds(self._clock, self._chance)
        self._lock = threading.Lock()
        self._home: Home | None = None
        self._threads = Threaded()
        super().__init__(AsyncCalls(self._connect, Inline(), self._clock))
        self.aio = AsyncApp(self._connect, self._threads, self._clock)

    def __repr__(self) -> str:
        return f"App({self._address.split('@')[-1]!r})"

    # -- life -----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Open what the address names, if that has not happened yet."""
        self._opened()
        return self

    def close(self) -> None:
        """Let go of connections, and of the database if this process owns it. Closing twice is the same as once."""
        with self._lock:
            home, self._home = self._home, None
        if home is not None:
            atexit.unregister(self.close)
            home.close()
        self._threads.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def move(self, address: str) -> None:
        """Take another address than the one in the source: for worker processes. Not once it is open."""
        if self._home is not None:
            raise InvalidInput("the app is open already", field="address")
        self._address = plain_address(address)

    def _opened(self) -> Home:
        with self._lock:
            if self._home is None:
                remote = lambda url: open_remote(url, self._token, self._clock, self._ids, self._chance)  # noqa: E731 - one use
                self._home = open_home(self._address, self._load, self.settings, self._clock, self._ids, remote)
                atexit.register(self.close)
            return self._home

    def _connect(self) -> Connection:
        return self._opened().connection

    # -- jobs -----------------------------------------------------------------------------------------------------

    def job(self, name: str | None = None, **fields: Any) -> Callable[[Callable[P, R]], JobFunction[P, R]]:
        """Make a function a job: `@app.job(units=10, priority="high", retries=2)`. Fields as in the reference."""
        if callable(name):
            raise InvalidJob("write @app.job() with parentheses", field="name")
        checked = job_fields(fields)
        parse_job({"type": "checked", **checked})

        def made(function: Callable[P, R]) -> JobFunction[P, R]:
            known_as = name or function.__name__
            self.handlers.add(known_as, function)
            return JobFunction(function, known_as, checked, self.submit, self.aio.submit)

        return made

    # -- load -----------------------------------------------------------------------------------------------------

    def asgi(self, application: AsgiApp) -> AsgiLoad:
        """An ASGI application whose requests feed the busy rating: p95 of the latency, requests in flight, errors."""
        self._opened().report_load()
        return AsgiLoad(application)

    def wsgi(self, application: WsgiApp) -> WsgiLoad:
        """The same for a WSGI application."""
        self._opened().report_load()
        return WsgiLoad(application, stopwatch)

    # -- workers --------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, workers: int = 1, **how: Any) -> Iterator[Runtime]:
        """Run workers in the background of this process: `with app.running(workers=2):`."""
        runtime = self.worker(slots=workers, **how).start()
        try:
            yield runtime
        finally:
            runtime.stop()

    def worker(
        self,
        *,
        worker_id: str | None = None,
        slots: int = 1,
        prefetch: int = 0,
        isolation: Isolation = "thread",
        pool: str = "default",
        resources: Mapping[str, float | str] | None = None,
        labels: Mapping[str, str] | None = None,
        types: list[str] | None = None,
        handlers: bool = True,
        options: Options | None = None,
    ) -> Runtime:
        """A worker in this process, not yet started. It takes the job types that this app has handlers for.

        With `handlers` false it takes no Python jobs but those that name an import path.
        """
        home = self._opened()
        known = sorted({*self.handlers, GENERIC}) if types is None and self.handlers else types
        spec = WorkerIn(
            worker_id or f"{os.uname().nodename}-{os.getpid()}-{self._ids.new()[-6:].lower()}",
            pool,
            slots,
            prefetch,
            dict(resources or {}),
            labels=dict(labels or {}),
            types=known,
            pull=False,
            handlers=handlers,
        )
        source = locate(self) if isolation == "process" else ""
        executors = Executors(self.handlers, self._clock, isolation=isolation, source=source)
        return Runtime(home.link(spec.id), spec, executors, self._clock, options)

    def start_workers(self, processes: int = 2, **how: Any) -> WorkerProcesses:
        """Start worker processes and come back; `stop` them, or use them in a `with` statement."""
        found = WorkerProcesses(locate(self), self._opened().address(), how, token=self._token)
        return found.start(processes)

    def run_workers(self, processes: int = 2, **how: Any) -> None:
        """Run worker processes until SIGTERM or Ctrl-C; those that die are replaced."""
        self.start_workers(processes, **how).serve()
