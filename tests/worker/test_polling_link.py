"""A worker that polls: what it says of itself while it has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.client.http import Http
from headgate.system import SystemChance, SystemClock
from headgate.wire.http import WorkerIn
from headgate.worker.polling_link import PollingLink
from tests.server.world import World


@pytest.fixture
def world(quick: Path) -> Iterator[World]:
    made = World(quick / "server").start()
    yield made
    made.stop()


def test_an_idle_worker_stays_drained_and_one_that_was_removed_comes_back(world: World) -> None:
    http = Http(world.url, world.token, SystemChance())
    link = PollingLink(http, "w", SystemClock())
    link.register(WorkerIn("w"))
    with world.client() as client:
        client.post("/v2/workers/w/drain")
        assert link.beat([]) == []
        assert client.get("/v2/workers/w").json()["status"] == "draining"
        client.delete("/v2/workers/w")
        assert link.beat([]) == []
        assert client.get("/v2/workers/w").json()["status"] == "ready"
    http.close()
