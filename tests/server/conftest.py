"""A real server on a free loopback port: its loop runs in a thread, the tests are ordinary clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.world import World

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    worlds: list[World] = []

    def make(**options: Any) -> World:
        world = World(tmp_path / f"server-{len(worlds)}", **options).start()
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.stop()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One server for many questions that leave nothing behind."""
    world = World(tmp_path_factory.mktemp("server")).start()
    yield world
    world.stop()
