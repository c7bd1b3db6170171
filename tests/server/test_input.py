"""Bad input: a problem document that says what is wrong, never a 500, and never an effect."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.errors import InvalidInput
from headgate.server import strict
from headgate.wire.http import CompleteIn
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register
from tests.server.world import World

DEEP = 100_000
BAD = {
    "nothing": b"",
    "half": b'{"name": ',
    "not JSON": b"name=x",
    "two documents": b"{} {}",
    "a trailing comma": b'{"name": "x",}',
    "NaN": b'{"payload": NaN}',
    "Infinity": b'{"payload": Infinity}',
    "-Infinity": b'{"payload": [-Infinity]}',
    "1e400": b'{"payload": 1e400}',
    "1e400 in a field": b'{"units": 1e400}',
    "deep arrays": b'{"payload": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep and unfinished": b"[" * DEEP,
    "65 levels": b'{"payload": ' + b"[" * 65 + b"]" * 65 + b"}",
    "2**64": b'{"payload": 18446744073709551616}',
    "-2**63 - 1": b'{"payload": -9223372036854775809}',
    "2**63 units": b'{"units": 9223372036854775808}',
    "5,000 digits": b'{"payload": ' + b"9" * 5_000 + b"}",
    "5,000 digits in a field": b'{"units": ' + b"9" * 5_000 + b"}",
    "NUL in a name": b'{"name": "a\\u0000b"}',
    "NUL in a payload": b'{"payload": ["a\\u0000b"]}',
    "NUL in a key": b'{"payload": {"a\\u0000": 1}}',
    "a lone surrogate in a name": b'{"name": "\\ud800"}',
    "a lone surrogate in a payload": b'{"payload": "x\\ud800yyyyyyyyyyyyyyy"}',
    "the second half of a pair": b'{"payload": "\\udc00yyyyyyyyyyyyy"}',
    "bytes that are not UTF-8": b'{"payload": "\xff\xfe"}',
    "an encoded surrogate": b'{"payload": "\xed\xa0\x80"}',
    "an overlong encoding": b'{"payload": "\xc0\x80"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "a raw control character": b'{"name": "a\nb"}',
    "a number": b"1",
    "null": b"null",
}
CALLS = ("/v2/jobs", "/v2/leases", "/v2/workers", "/v2/leases/1-1/complete", "/v2/load", "/v2/admin/scheduler/validate")


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_strict_json_is_refused_by_every_call(shared_world: World, name: str) -> None:
    with shared_world.client() as client:
        for path in CALLS:
            answer = client.post(path, content=BAD[name])
            assert answer.status_code == 400, (path, answer.text[:200])
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] in ("malformed_json", "invalid_input", "invalid_job")
    assert shared_world.read(lambda state: len(state.jobs)) == 0


def test_a_result_is_as_strict_as_a_job(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client)
        lease = claim(client)["lease"]
        path = f"/v2/leases/{lease['lease_id']}"
        client.post(f"{path}/start", json={"token": lease["token"]})
        for bad in (b"1e400", b"9" * 5_000, b'"\\u0000"', b'"\\ud800aaaaaaaaaaaa"', b'"\xff"', b"[" * 70 + b"]" * 70):
            body = b'{"token": %d, "result": %s}' % (lease["token"], bad)
            problem(client.post(f"{path}/complete", content=body), 400, "malformed_json")
        good = b'{"big": 18446744073709551615, "small": -1e-300, "text": "\\ud83d\\ude00\xc3\xa9"}'
        body = b'{"token": %d, "result": %s}' % (lease["token"], good)
        assert client.post(f"{path}/complete", content=body).status_code == 200
        job = client.get(f"/v2/jobs/{lease['job_id']}").json()
        assert job["result"] == {"big": 2**64 - 1, "small": -1e-300, "text": "\U0001f600é"}


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(), st.lists))
def test_whatever_passes_can_be_written_and_read_again(value: Any) -> None:
    try:
        body = json.dumps({"token": 1, "result": value}).encode("utf-8")
        given_back = strict.read_as(body, CompleteIn)
    except InvalidInput:
        return
    assert json.loads(bytes(given_back.result)) == value


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_at_all_break_the_reader(body: bytes) -> None:
    for read in (strict.read_json, lambda data: strict.read_as(data, CompleteIn)):
        try:
            read(body)
        except InvalidInput:
            continue


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_no_name_in_a_path_breaks_a_call(shared_world: World, name: str) -> None:
    with shared_world.client() as client:
        path = httpx.URL(shared_world.url).copy_with(raw_path=b"/v2/jobs/" + _quoted(name))
        answer = client.get(path)
        assert answer.status_code in (200, 400, 404), answer.text


def _quoted(name: str) -> bytes:
    return b"".join(b"%%%02X" % byte for byte in name.encode())


def test_a_body_that_is_too_large_is_refused_at_once(make_world: MakeWorld) -> None:
    world = make_world(max_body=100_000)
    with world.client() as client:
        answer = client.post("/v2/jobs", json={"payload": "x" * 200_000})
        found = problem(answer, 413, "body_too_large")
        assert found["extra"]["limit"] == 100_000
        assert client.post("/v2/jobs", json={"payload": "x" * 90_000}).status_code == 201
    assert world.read(lambda state: len(state.jobs)) == 1


def test_an_endless_body_is_refused_in_mid_stream(make_world: MakeWorld) -> None:
    world = make_world(max_body=100_000)
    with world.raw("POST", "/v2/jobs", "Transfer-Encoding: chunked") as raw:
        chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
        sent = 0
        try:
            while sent < 1_000:  # it never says that it ends
                raw.sendall(chunk)
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 1_000
        answer = _rest(raw)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 413")


def _rest(raw: Any) -> bytes:
    try:
        return bytes(raw.recv(4_096))
    except ConnectionResetError:
        return b""


def test_a_chunked_body_just_over_the_limit_gets_its_answer(make_world: MakeWorld) -> None:
    world = make_world(max_body=1_000)
    with world.raw("POST", "/v2/jobs", "Transfer-Encoding: chunked") as raw:
        raw.sendall(b"800\r\n" + b"x" * 0x800 + b"\r\n")
        answer = raw.recv(4_096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999999999999999999999"])
def test_a_length_that_is_no_length_is_refused(world: World, length: str) -> None:
    with world.raw("POST", "/v2/jobs", f"Content-Length: {length}") as raw:
        assert raw.recv(4_096).split(b" ")[1] in (b"400", b"413")


def test_an_endless_header_is_cut_off(world: World) -> None:
    with world.raw("GET", "/v2/jobs", end=False) as raw:
        try:
            for _ in range(1_000):
                raw.sendall(b"X-More: " + b"x" * 1_000 + b"\r\n")
            rest = _rest(raw)
        except (BrokenPipeError, ConnectionResetError):
            rest = b""
        assert rest == b"" or rest.startswith(b"HTTP/1.1 4")


def test_what_is_not_http_is_refused(world: World) -> None:
    with world.raw("\x16\x03\x01", "hello") as raw:
        assert raw.recv(4_096).startswith(b"HTTP/1.1 400")


def test_unknown_calls_and_methods_have_problem_documents(world: World) -> None:
    with world.client() as client:
        problem(client.get("/v2/nothing"), 404, "no_route")
        problem(client.get("/v2/jobs/"), 404, "no_route")
        answer = client.delete("/v2/jobs")
        problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == "POST, GET"
        problem(client.get("/v2/live"), 405, "method_not_allowed")
        problem(client.get("/v2/status?x=1"), 400, "invalid_input")
        assert client.head("/v2/status").status_code == 200
        assert client.head("/v2/status").content == b""


def test_a_bug_is_not_told_to_the_client(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(world.app.service.deliveries, "leased", broken)
    with world.client() as client:
        job_id = submit(client, run={"kind": "external"})["id"]
        answer = client.post("/v2/leases", json={"worker_id": "w", "job_id": job_id})
        problem(answer, 500, "internal_error")
        assert "secret" not in answer.text
