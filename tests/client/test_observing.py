"""Requests of an application reach the busy rating of a server, from `observe` and from the middleware."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.app.reporting import LoadCalls
from headgate.core import commands as c
from headgate.load.api import RECORDER, SLICES
from tests.server.world import World


@pytest.fixture(autouse=True)
def fresh_recorder() -> Iterator[None]:
    yield
    for _ in range(SLICES + 1):
        RECORDER.read()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, core={"fixed_busy": None, "required_sources": (), "poll": 1_000}).start()
    yield made
    made.stop()


def rated(world: World, signal: str) -> Any:
    return world.wait_for(lambda state: state.load.signals.get(signal, 0) > 5 or None)


def test_observed_requests_are_reported_together_and_shut_the_gate(world: World) -> None:
    before = set(threading.enumerate())
    with headgate.App(world.url, token=world.token) as app:
        for _ in range(50):
            app.observe(latency_s=3.0, error=True)
        rated(world, "api_latency")
        rated(world, "api_errors")
        assert app.status().capacity.usable_units == 0
        with world.client() as client:
            said = client.get("/metrics").text
        assert 'headgate_http_requests_total{call="report_load",status="200"} 1.0' in said, "fifty requests, one call"
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("headgate")]


def test_a_slow_wsgi_application_is_reported_without_another_word(world: World) -> None:
    def slow(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("500 Oh", [])
        return [b"late"]

    with headgate.App(world.url, token=world.token) as app:
        site: Any = app.wsgi(slow)
        for _ in range(4):
            site({}, lambda *_: None).close()
        rated(world, "api_errors")


def test_only_samples_are_sent() -> None:
    with pytest.raises(TypeError, match="does not Tick"):
        LoadCalls(None).do(c.Tick())  # type: ignore[arg-type]
