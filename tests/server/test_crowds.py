"""Slow clients and crowds: whoever is slow is cut off, and heartbeats keep flowing meanwhile."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import httpx
import pytest

from headgate.server.problems import Overloaded
from headgate.server.protocol import PatientProtocol
from headgate.server.routing import Urgency
from tests.server.conftest import MakeWorld
from tests.server.storm import storm_on
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.server.world import WITHIN, World

QUICK = {"read_timeout": 0.5, "write_timeout": 0.5}


def ends(raw: socket.socket) -> bytes:
    """Everything until the server ends the connection."""
    raw.settimeout(WITHIN)
    found = b""
    try:
        while data := raw.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


def test_a_client_that_sends_nothing_is_cut_off(make_world: MakeWorld) -> None:
    world = make_world(**QUICK)
    with socket.create_connection(("127.0.0.1", world.serving.port)) as raw:
        assert ends(raw) == b""


def test_a_client_that_stops_in_its_headers_is_cut_off(make_world: MakeWorld) -> None:
    world = make_world(**QUICK)
    with world.raw("GET", "/v2/jobs", end=False) as raw:
        assert ends(raw) == b""


def test_a_client_that_stops_in_its_body_is_told_and_cut_off(make_world: MakeWorld) -> None:
    world = make_world(**QUICK)
    with world.raw("POST", "/v2/jobs", "Content-Length: 100") as raw:
        raw.sendall(b"{")
        assert ends(raw).startswith(b"HTTP/1.1 408")
    assert world.read(lambda state: len(state.jobs)) == 0


def test_a_second_request_is_timed_like_the_first(make_world: MakeWorld) -> None:
    world = make_world(**QUICK)
    with world.raw("GET", "/healthz") as raw:
        answer = b""
        while not answer.endswith(b"}"):
            answer += raw.recv(4_096)
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        assert ends(raw) == b""


def test_a_client_that_does_not_read_is_cut_off(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world, cut = make_world(**QUICK), threading.Event()
    lose = PatientProtocol.connection_lost

    def lost(self: PatientProtocol, exc: Exception | None) -> None:
        lose(self, exc)
        if self.client is not None and self.client[1] == raw.getsockname()[1]:
            cut.set()

    with world.client() as client:
        submit(client, [{"payload": "x" * 100_000} for _ in range(100)])
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    monkeypatch.setattr(PatientProtocol, "connection_lost", lost)
    raw.connect(("127.0.0.1", world.serving.port))
    with raw:
        head = f"GET /v2/jobs HTTP/1.1\r\nHost: {world.host}\r\nAuthorization: Bearer {world.token}\r\n\r\n"
        raw.sendall(head.encode())
        assert cut.wait(WITHIN)
    with world.client() as client:
        assert client.get("/healthz").status_code == 200


def storm(world: World, slow: int, beats: int) -> list[float]:
    """Slow clients by the hundred; how long each heartbeat took beside them, in seconds."""
    connections = [world.raw("POST", "/v2/jobs", "Content-Length: 1000", end=True) for _ in range(slow)]
    try:
        for number, raw in enumerate(connections):
            raw.sendall(b"x" * (number % 7))
        with world.client() as client:
            register(client)
            submit(client)
            lease = claim(client)["lease"]
            word(client, lease, "start")
            answers = [word(client, lease, "heartbeat") for _ in range(beats)]
        assert {answer.status_code for answer in answers} == {200}
        return sorted(answer.elapsed.total_seconds() for answer in answers)
    finally:
        with ThreadPoolExecutor(8) as pool:
            ended = list(pool.map(ends, connections))
        for raw in connections:
            raw.close()
        assert all(found == b"" or b" 408 " in found.partition(b"\r\n")[0] for found in ended)


def test_heartbeats_flow_beside_a_hundred_slow_clients(make_world: MakeWorld) -> None:
    world = make_world(read_timeout=2.0)
    times = storm(world, 100, 50)
    assert times[len(times) // 2] < 0.5
    assert world.read(lambda state: len(state.jobs)) == 1


@pytest.mark.slow
def test_heartbeats_flow_beside_a_thousand_slow_clients(make_world: MakeWorld) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8_192), hard), hard))
    world = make_world()
    times = storm(world, 1_000, 200)
    assert times[len(times) // 2] < 0.5


def test_the_least_urgent_are_turned_away_first(make_world: MakeWorld) -> None:
    world = make_world(crowd=2)
    intake = world.app.service.intake
    for inside, welcome in (
        (1, {Urgency.VITAL, Urgency.CLAIM, Urgency.SUBMIT, Urgency.LOOK}),
        (2, {Urgency.VITAL, Urgency.CLAIM, Urgency.SUBMIT}),
        (4, {Urgency.VITAL, Urgency.CLAIM}),
        (6, {Urgency.VITAL}),
        (1_000, {Urgency.VITAL}),
    ):
        intake.inside = inside
        let_in = set()
        for urgency in Urgency:
            try:
                intake.admit(urgency)
            except Overloaded:
                continue
            let_in.add(urgency)
        assert let_in == welcome, inside
    intake.inside = 2
    with world.client() as client:
        answer = client.get("/v2/jobs")
        problem(answer, 503, "overloaded")
        assert answer.headers["retry-after"] == "1"
        assert client.post("/v2/jobs", json={}).status_code == 201
        assert client.get("/healthz").status_code == 200


def test_waiting_claims_are_no_crowd(make_world: MakeWorld) -> None:
    world = make_world(crowd=1)
    with world.client() as client, world.client() as other, ThreadPoolExecutor(1) as pool:
        register(client)
        waiting = pool.submit(claim, other, wait_s=15)
        world.wait_for(lambda state: state.workers["w"].claims == 1)
        assert client.get("/v2/jobs").status_code == 200
        submit(client)
        assert "lease" in waiting.result()


def test_too_many_large_bodies_at_once_are_refused(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(max_buffered=300_000)
    intake, arrived = world.app.service.intake, threading.Event()
    count = intake._buffer

    def counting(size: int) -> None:
        count(size)
        if intake.buffered >= 150_000:
            arrived.set()

    monkeypatch.setattr(intake, "_buffer", counting)
    with world.raw("POST", "/v2/jobs", "Content-Length: 200000") as raw:
        raw.sendall(b"x" * 150_000)
        assert arrived.wait(WITHIN)
        with world.client() as client:
            problem(client.post("/v2/jobs", json={"payload": "x" * 200_000}), 503, "overloaded")
    with world.client() as client:
        assert client.post("/v2/jobs", json={"payload": "x" * 200_000}).status_code == 201


def beats_flow(client: httpx.Client, trouble: Callable[[], AbstractContextManager[None]]) -> None:
    """Heartbeats are answered, half of them soon, while there is trouble."""
    register(client, labels={"place": "here"})
    submit(client, {"requires": {"place": "here"}})
    lease = claim(client)["lease"]
    word(client, lease, "start")
    with trouble():
        answers = [word(client, lease, "heartbeat") for _ in range(100)]
    assert word(client, lease, "complete").status_code == 200
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.elapsed.total_seconds() for answer in answers)[50] < 0.5


def test_a_storm_does_not_hold_up_heartbeats_on_the_loop_of_the_standard_library_either(world: World) -> None:
    assert type(world.loop).__module__.startswith("asyncio.")
    with world.client() as client:
        beats_flow(client, lambda: storm_on(world.serving.port))


def test_in_a_crowd_pages_go_first_then_submissions_then_claims_and_words_on_leases_never(
    make_world: MakeWorld,
) -> None:
    """Over HTTP, with as many requests in progress as make a crowd for each."""
    world = make_world(crowd=10)
    intake = world.app.service.intake
    with world.client() as client:
        register(client, slots=2)
        submit(client)
        lease = claim(client)["lease"]
        word(client, lease, "start")
        for inside, welcome in ((9, 4), (10, 3), (20, 2), (30, 1), (10_000, 1)):
            intake.inside = inside
            asked = (
                word(client, lease, "heartbeat"),
                client.post("/v2/leases", json={"worker_id": "w"}),
                client.post("/v2/jobs", json={"deadline": 1}),
                client.get("/"),
            )
            statuses = [answer.status_code for answer in asked]
            assert [status != 503 for status in statuses] == [True] * welcome + [False] * (4 - welcome), inside
            assert all("retry-after" in answer.headers for answer in asked if answer.status_code == 503)
        assert word(client, lease, "complete").status_code == 200
        intake.inside = 0
        shed = client.get("/metrics").text
    assert 'headgate_http_turned_away_total{urgency="look"} 4.0' in shed
