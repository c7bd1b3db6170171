"""Apps on an engine of their own, embedded and remote, called with and without `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.app import App
from headgate.client.leases import HeldLease
from headgate.core.settings import Settings
from tests.server.world import World

MakeApp = Callable[..., App]
CORE: dict[str, Any] = {"fixed_busy": 0, "total_units": 100}


@pytest.fixture(params=["embedded", "remote"])
def make_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeApp]:
    """Makes apps; settings of the core by name."""
    closing: list[Callable[[], None]] = []

    def embedded(**core: Any) -> App:
        app = App(tmp_path / "jobs.db", load=0, settings=Settings(**{**CORE, **core}))
        closing.append(app.close)
        return app

    def remote(**core: Any) -> App:
        world = World(tmp_path / "server", core={**CORE, **core}).start()
        app = App(world.url, token=world.token)
        closing.extend([world.stop, app.close])
        return app

    yield embedded if request.param == "embedded" else remote
    for close in reversed(closing):
        close()


@pytest.fixture
def app(make_app: MakeApp) -> App:
    return make_app()


class Twin:
    """One way of calling: `ask` makes the result of either twin a plain value."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop

    def of(self, app: App) -> Any:
        return app if self._loop is None else app.aio

    def ask(self, answer: Any) -> Any:
        if self._loop is None:
            return answer
        assert isinstance(answer, Awaitable), "a call of the async twin must be awaited"
        return self._loop.run_until_complete(answer)

    @contextmanager
    def holding(self, request: Any) -> Iterator[HeldLease]:
        if self._loop is None:
            with request as lease:
                yield lease
            return
        lease = self._loop.run_until_complete(request.__aenter__())
        try:
            yield lease
        except BaseException as error:
            self._loop.run_until_complete(request.__aexit__(type(error), error, None))
            raise
        self._loop.run_until_complete(request.__aexit__(None, None, None))


@pytest.fixture(params=["sync", "async"])
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    if request.param == "sync":
        yield Twin(None)
        return
    with asyncio.Runner() as runner:
        yield Twin(runner.get_loop())
