"""What an attacker without a token can put on the wire: every connection ends, and nothing slips past the checks."""

from __future__ import annotations

import contextlib
import gzip
import random
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from headgate.server.app import ROUTES
from headgate.server.websocket_protocol import FrameEnds
from tests.server.conftest import MakeWorld
from tests.server.test_crowds import QUICK, ends
from tests.server.test_jobs import problem, submit
from tests.server.world import WITHIN, World

UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# -- requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Content-Length: 2", "Content-Length: 3"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Content-Length : 2",),
        ("Content-Length: 2\r\n folded",),
        ("X: a\0b",),
        ("X: a\rb",),
        ("Host: evil.example", "Content-Length: 2"),
        ("Host:", "Content-Length: 2"),
        ("Origin: http://evil.example", "Origin: http://{host}", "Content-Length: 2"),
        ("Origin: http://{host}", "Origin: http://evil.example", "Content-Length: 2"),
        ("Authorization: Bearer x", "Content-Length: 2"),
    ],
)
def test_a_request_that_two_readers_could_read_differently_is_refused(world: World, lines: tuple[str, ...]) -> None:
    with world.raw("POST", "/v2/jobs", *(line.replace("{host}", world.host) for line in lines)) as raw:
        raw.sendall(b"{}\r\n0\r\n\r\n")
        assert status(raw.recv(4_096)) in (400, 401, 403)
    assert world.read(lambda state: len(state.jobs)) == 0


def test_a_host_in_the_target_is_checked_like_the_header(world: World) -> None:
    for target, expected in ((f"http://{world.host}/v2/jobs", 200), ("http://evil.example/v2/jobs", 403), ("*", 404)):
        with world.raw("GET", target) as raw:
            assert status(raw.recv(4_096)) == expected, target


@pytest.mark.parametrize("size", [9_000, 60_000, 70_000, 1_000_000])
def test_a_long_address_header_or_query_is_refused_and_never_a_bug(world: World, size: int) -> None:
    long = "x" * size
    for path, header in (
        (f"/v2/jobs/{long}", "X: y"),
        (f"/v2/jobs?name={long}", "X: y"),
        ("/v2/nothing", f"X: {long}"),
    ):
        with world.raw("GET", path, end=False) as raw:
            try:
                raw.sendall(f"{header}\r\n\r\n".encode())
                raw.shutdown(socket.SHUT_WR)
            except OSError:  # cut off already
                continue
            answer = ends(raw)
            assert answer == b"" or status(answer) in (200, 400, 404), answer[:100]


def test_a_query_of_very_many_values_is_answered(world: World) -> None:
    with world.client() as client:
        answer = client.get("/v2/jobs", params={"tenant": ",".join(f"t{n}" for n in range(8_000))})
        assert answer.status_code in (200, 400), answer.text[:200]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_an_encoded_body_is_refused_so_none_can_swell(world: World, encoding: str) -> None:
    bomb = gzip.compress(b" " * (50 << 20) + b"{}")
    with world.client() as client:
        answer = client.post("/v2/jobs", content=bomb, headers={"Content-Encoding": encoding})
        problem(answer, 415, "unsupported_encoding")
        assert client.post("/v2/jobs", content=b"{}", headers={"Content-Encoding": "identity"}).status_code == 201


@pytest.mark.parametrize("body", [b"1;" + b"x" * 200_000, b"1\r\nx\r\n0\r\nX: y\r\n" * 3, b"fffffffff\r\n"])
def test_a_chunked_body_without_an_end_is_cut_off(make_world: MakeWorld, body: bytes) -> None:
    world = make_world(**QUICK)
    with world.raw("POST", "/v2/jobs", "Transfer-Encoding: chunked") as raw:
        raw.sendall(body)
        answer = ends(raw)
        assert answer == b"" or status(answer) in (400, 408)
    assert world.read(lambda state: len(state.jobs)) == 0


def test_nobody_without_a_token_can_send_much(world: World) -> None:
    """The form is read before anybody is known; its body has a limit of its own."""
    with world.client(None) as client:
        problem(client.post("/login", content=b"token=x&" * 4_000), 413, "body_too_large")
        problem(client.post("/v2/jobs", content=b"x" * 100_000), 401, "unauthorized")


def test_a_cookie_of_any_shape_is_read_at_once(world: World) -> None:
    """The standard library takes time that grows with the square of some cookies."""
    quoted = 'headgate_token="' + "\\" * 40_000 + '"'
    with world.client(None) as client:
        for cookie in (quoted, "a=b;" * 10_000, "=;=;" * 10_000, 'x="' + '\\"' * 20_000):
            answer = client.get("/v2/jobs", headers={"Cookie": cookie})
            problem(answer, 401, "unauthorized")
            assert answer.elapsed.total_seconds() < 0.5


# -- connections --------------------------------------------------------------------------------------------------


def test_when_there_are_too_many_connections_the_silent_ones_go_first(make_world: MakeWorld) -> None:
    world = make_world(max_connections=20)
    with world.client() as client:
        assert client.get("/healthz").status_code == 200
        silent = [socket.create_connection(("127.0.0.1", world.serving.port)) for _ in range(60)]
        try:
            for raw in silent[:30]:
                assert ends(raw) == b""
            assert client.get("/healthz").status_code == 200
            assert client.post("/v2/jobs", json={}).status_code == 201
        finally:
            for raw in silent:
                raw.close()


def test_when_all_have_spoken_the_one_that_is_idle_longest_goes(make_world: MakeWorld) -> None:
    world = make_world(max_connections=5)
    spoken: list[socket.socket] = []
    try:
        for _ in range(12):
            spoken.append(world.raw("GET", "/healthz"))
            assert spoken[-1].recv(10)  # one that has not spoken would go first
        for raw in spoken[:5]:
            ends(raw)
        with world.client() as client:
            assert client.get("/healthz").status_code == 200
    finally:
        for raw in spoken:
            raw.close()


def test_streams_are_not_cut_off_for_new_connections(make_world: MakeWorld) -> None:
    world = make_world(max_connections=10)
    with world.socket("/v2/live?topics=status") as talk:
        assert talk.hear()["type"] == "snapshot"
        idle = [socket.create_connection(("127.0.0.1", world.serving.port)) for _ in range(30)]
        try:
            for raw in idle[:15]:
                assert ends(raw) == b""
            talk.connection.ping().wait(WITHIN)
        finally:
            for raw in idle:
                raw.close()


# -- WebSockets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 1000",),
        ("Transfer-Encoding: chunked",),
        ("X: " + "x" * 9_000,),
        tuple(f"X-{number}: y" for number in range(200)),
    ],
)
def test_an_upgrade_that_never_comes_about_is_ended(make_world: MakeWorld, lines: tuple[str, ...]) -> None:
    world = make_world(**QUICK)
    with world.raw("GET", "/v2/live", *UPGRADE, *lines) as raw:
        answer = ends(raw)
        assert answer == b"" or status(answer) == 400


@pytest.mark.parametrize("path", [route.path.replace("{id}", "w") for route in ROUTES if route.method == "WS"])
@pytest.mark.parametrize("line", ["Host: evil.example", "Host: {host}\r\nOrigin: http://evil.example"])
def test_a_socket_for_a_foreign_host_or_of_a_foreign_page_is_refused(world: World, path: str, line: str) -> None:
    with socket.create_connection(("127.0.0.1", world.serving.port), timeout=WITHIN) as raw:
        lines = [f"GET {path} HTTP/1.1", line.replace("{host}", world.host), *UPGRADE]
        raw.sendall("\r\n".join([*lines, f"Authorization: Bearer {world.token}", "\r\n"]).encode())
        answer = ends(raw)
    assert status(answer) == 403
    assert b'"code":"foreign_' in answer


def test_an_upgrade_that_stops_half_way_is_cut_off(make_world: MakeWorld) -> None:
    world = make_world(**QUICK)
    with world.raw("GET", "/v2/live", *UPGRADE, end=False) as raw:
        assert ends(raw) == b""


def open_socket(world: World, path: str) -> socket.socket:
    """A WebSocket by hand, for what no library sends."""
    raw = world.raw("GET", path, *UPGRADE)
    head = b""
    while b"\r\n\r\n" not in head:
        head += raw.recv(1)
    assert status(head) == 101
    return raw


def frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


@pytest.mark.parametrize(
    "sent",
    [
        frame(Opcode.TEXT, b"{")[:-1],
        frame(Opcode.TEXT, b'{"type":', fin=False),
        struct.pack("!BBQ", 0x81, 0xFF, 1_000),
        b"\x81",
    ],
    ids=["half a frame", "half a message", "a length and nothing", "a byte"],
)
def test_a_message_that_does_not_end_is_cut_off(make_world: MakeWorld, sent: bytes) -> None:
    world = make_world(**QUICK)
    with open_socket(world, "/v2/live?topics=policy") as raw:
        raw.sendall(sent)
        ends(raw)


@given(
    st.lists(st.tuples(st.binary(max_size=300) | st.just(b"x" * 70_000), st.booleans()), min_size=1, max_size=6),
    st.lists(st.integers(0, 1 << 17), max_size=8),
)
def test_the_ends_of_frames_are_found_however_they_are_cut(frames: list[tuple[bytes, bool]], cuts: list[int]) -> None:
    sent = [Frame(Opcode.BINARY, data).serialize(mask=masked) for data, masked in frames]
    ends_at = {len(b"".join(sent[: count + 1])) for count in range(len(sent))}
    whole = b"".join(sent)
    places = sorted({min(cut, len(whole)) for cut in cuts} | {len(whole)} - {0})
    following, before = FrameEnds(), 0
    for place in places:
        if place > before:
            assert following.feed(whole[before:place]) == (place in ends_at)
        before = place


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack("!BBQ", 0x82, 0xFF, 1 << 62),
        struct.pack("!BBQ", 0x82, 0xFF, 200_000),
        frame(Opcode.BINARY, b"x" * 60_000, fin=False) + frame(Opcode.CONT, b"x" * 60_000),
        frame(Opcode.TEXT, b"", fin=False) + frame(Opcode.CONT, b"", fin=False) * 5_000,
        frame(Opcode.CONT, b"x"),
        b"\xf1\x80\x00\x00\x00\x00",
        b"\x81\x01x",
        frame(Opcode.TEXT, b"\xff\xfe"),
        random.Random(7).randbytes(4_096),
    ],
    ids=[
        "2**62 bytes", "over the limit", "fragments over the limit", "endless fragments", "a fragment of nothing",
        "compressed", "not masked", "not UTF-8", "noise",
    ],
)  # fmt: skip
def test_what_is_no_proper_message_ends_the_connection(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    world = make_world(max_body=100_000, **QUICK)
    with open_socket(world, "/v2/live?topics=policy") as raw:
        with contextlib.suppress(OSError):  # cut off already
            raw.sendall(sent)
        ends(raw)
    with world.client() as client:
        assert client.get("/healthz").status_code == 200
    assert "bug" not in caplog.text


LONG = "ü" * 200
GARBAGE = ("", "{", "[]", "null", '{"type": 7}', f'{{"type": "{LONG}"}}', f'{{"{LONG}": 1}}', b"\x00\xff", "[" * 9_000)


def test_garbage_on_the_live_feed_is_answered(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with world.socket("/v2/live") as talk:
        for said in GARBAGE:
            talk.connection.send(said)
            assert talk.hear("not-done")["problem"]["status"] == 400
    assert "bug" not in caplog.text


def test_garbage_on_a_stream_ends_it_with_a_reason(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with world.client() as client:
        client.post("/v2/workers", json={"id": "w"})
    for said in GARBAGE:
        with world.socket("/v2/workers/w/stream") as talk:
            talk.connection.send(said)
            with pytest.raises(ConnectionClosed) as closed:
                talk.hear("nothing")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4400
            assert closed.value.rcvd.reason
    assert "bug" not in caplog.text


def test_nothing_is_compressed_on_a_socket(world: World) -> None:
    with world.socket("/v2/live", compression="deflate") as talk:
        assert talk.connection.protocol.extensions == []


@pytest.mark.parametrize("tokens", [[], ["bearer."], ["bearer.x"]])
def test_a_refused_socket_is_told_with_a_problem_document(world: World, tokens: list[str]) -> None:
    lines = [f"Sec-WebSocket-Protocol: {token}" for token in tokens]
    address = ("127.0.0.1", world.serving.port)
    with socket.create_connection(address, timeout=WITHIN) as raw:
        head = ["GET /v2/live HTTP/1.1", f"Host: {world.host}", *UPGRADE, *lines, "\r\n"]
        raw.sendall("\r\n".join(head).encode())
        answer = ends(raw)
    assert status(answer) == 401
    assert b"application/problem+json" in answer


def test_a_watcher_that_does_not_read_is_cut_off(make_world: MakeWorld) -> None:
    world = make_world(live_interval=0.01, **QUICK)
    live = world.app.service.live
    with world.client() as client:
        raw = open_socket(world, "/v2/live?topics=jobs")
        with raw:
            for number in range(500):
                submit(client, [{"name": f"{number}-{other}-" + "x" * 200} for other in range(100)])
                if not live._listeners:
                    break
            assert not live._listeners, "it is still told"
