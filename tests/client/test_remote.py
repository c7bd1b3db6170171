"""What only a remote app can meet: servers that come late or never, no stream, problem documents."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.app import App
from headgate.client.errors import ConnectionFailed, RequestRefused, from_problem
from headgate.client.http import Http
from headgate.core import errors as e
from headgate.system import SystemChance
from headgate.wire.http import Problem
from headgate.worker.stream_link import NoStream, StreamLink
from tests.server.world import World

WITHIN = 20.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, core={"fixed_busy": 0, "lease_ttl": 900}).start()
    yield found
    found.stop()


@pytest.fixture
def no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy that speaks no WebSocket."""

    def refuse(_: StreamLink) -> Any:
        raise NoStream("the proxy said no")

    monkeypatch.setattr(StreamLink, "_open", refuse)


@pytest.mark.usefixtures("no_stream")
def test_without_a_stream_a_worker_polls(world: World) -> None:
    began, stopped = threading.Event(), threading.Event()
    with App(world.url, token=world.token) as app:

        @app.job()
        def double(number: int) -> int:
            headgate.current_job().log("doubling")
            return 2 * number

        @app.job()
        def endless() -> None:
            began.set()
            try:
                headgate.current_job().wait(60)
            finally:
                stopped.set()

        with app.running(workers=2):
            handles = app.submit_many([double.job(number) for number in range(5)])
            assert [handle.result(WITHIN) for handle in handles] == [0, 2, 4, 6, 8]
            assert handles[0].logs() == "doubling\n"
            running = endless.submit()
            assert began.wait(WITHIN)
            running.cancel()
            assert stopped.wait(WITHIN)
        assert app.status().workers == {}


def test_a_worker_whose_stream_breaks_makes_a_new_one(world: World) -> None:
    with App(world.url, token=world.token) as app:

        @app.job()
        def one() -> int:
            return 1

        with app.running() as runtime:
            assert one.submit().result(WITHIN) == 1
            link: Any = runtime._link
            link._link._socket.close()
            assert one.submit().result(WITHIN) == 1


def test_a_wrong_token_is_a_typed_error(world: World) -> None:
    with App(world.url, token="hg_wrong") as app, pytest.raises(headgate.HeadgateError) as refused:
        app.status()
    assert refused.value.status == 401


def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        http = Http(f"http://127.0.0.1:{taken.getsockname()[1]}", None, SystemChance(), patience=0.1)
        with pytest.raises(ConnectionFailed, match="cannot be reached"):
            http.get("/v2/status", dict)


class Busy(BaseHTTPRequestHandler):
    """Says 503 twice, then serves; closes the connection each time without saying so."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(503 if self.asked <= 2 else 200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_server_that_is_busy_is_asked_again() -> None:
    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        http = Http(f"http://127.0.0.1:{server.server_port}", None, SystemChance())
        assert http.get("/x", dict) == {}
        assert Busy.asked == 3
        http.close()
        server.shutdown()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(e.InvalidInput):
        Http("http://", None, SystemChance())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("stale_lease", e.StaleLease),
        ("queue_full", e.QueueFull),
        ("invalid_job", e.InvalidJob),
        ("job_not_found", e.JobNotFound),
        ("nobody_knows", RequestRefused),
        ("job_failed", RequestRefused),
    ],
)
def test_problem_documents_become_typed_errors(code: str, kind: type[e.HeadgateError]) -> None:
    problem = Problem("urn:x", "No", 409, code, "in words", "units", 1_500, {"job_id": "j"})
    error = from_problem(problem)
    assert type(error) is kind
    assert (str(error), error.field, error.retry_after_ms, error.job_id) == ("in words", "units", 1_500, "j")
