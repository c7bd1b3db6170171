"""Engines that worker processes of a test share: a file in memory, or a server."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app import App
from headgate.app.processes import WorkerProcesses
from headgate.core.settings import Settings
from tests.server.world import World

SOURCE = "tests.worker.jobs_app:app"
WITHIN = 30.0
CORE: dict[str, Any] = {"fixed_busy": 0, "total_units": 1_000_000}


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, so that a busy disk does not slow the test."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="headgate-test-", dir=memory))
    yield path
    shutil.rmtree(path)


class Site:
    """An app for the test, and worker processes beside it."""

    def __init__(self, app: App, address: str, token: str | None) -> None:
        self.app = app
        self._address = address
        self._token = token
        self._started: list[WorkerProcesses] = []

    def workers(self, processes: int = 1, **how: Any) -> WorkerProcesses:
        found = WorkerProcesses(SOURCE, self._address, how, token=self._token).start(processes)
        self._started.append(found)
        return found

    def close(self) -> None:
        for started in self._started:
            started.stop(10.0)
        self.app.close()


MakeSite = Callable[..., Site]


@pytest.fixture(params=["embedded", "remote"])
def make_site(request: pytest.FixtureRequest, quick: Path) -> Iterator[MakeSite]:
    closing: list[Callable[[], None]] = []

    def embedded(**core: Any) -> Site:
        path = str(quick / "jobs.db")
        app = App(path, load=0, settings=Settings(**{**CORE, **core})).open()
        site = Site(app, path, None)
        closing.append(site.close)
        return site

    def remote(**core: Any) -> Site:
        world = World(quick / "server", core={**CORE, **core}).start()
        site = Site(App(world.url, token=world.token), world.url, world.token)
        closing.extend([world.stop, site.close])
        return site

    yield embedded if request.param == "embedded" else remote
    for close in reversed(closing):
        close()


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def until(question: Callable[[], Any], within: float = WITHIN) -> Any:
    """Wait for something that another process does; there is no signal to wait on across processes."""
    pause = threading.Event()
    for _ in range(round(within / 0.01)):
        if found := question():
            return found
        pause.wait(0.01)
    pytest.fail("it did not come to pass")
