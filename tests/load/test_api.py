"""The recorder of an application's requests, and the middleware that feeds it."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InvalidInput
from headgate.load import AsgiLoad, WsgiLoad, observe
from headgate.load.api import RECORDER, ApiRecorder


@given(st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=300))
def test_the_p95_is_never_better_and_at_most_a_tenth_worse_than_it_was(latencies: list[float]) -> None:
    recorder = ApiRecorder()
    for latency in latencies:
        recorder.observe(latency)
    exact = sorted(latencies)[math.ceil(0.95 * len(latencies)) - 1]
    found = recorder.read()["api_latency"]
    assert exact * (1 - 1e-9) <= found <= exact * 1.1 * (1 + 1e-9)


def test_errors_and_requests_in_flight_are_counted() -> None:
    recorder = ApiRecorder()
    for number in range(20):
        with recorder.in_flight():
            recorder.observe(0.01, error=number % 4 == 0)
    with recorder.in_flight(), recorder.in_flight():
        pass
    assert recorder.read() == {"api_latency": pytest.approx(0.01, rel=0.1), "api_inflight": 2.0, "api_errors": 0.25}


def test_the_peak_since_the_last_reading_counts_and_not_the_moment() -> None:
    recorder = ApiRecorder()
    recorder.begin()
    recorder.begin()
    recorder.end()
    assert recorder.read()["api_inflight"] == 2.0
    assert recorder.read()["api_inflight"] == 1.0


def test_silence_is_no_load() -> None:
    assert ApiRecorder().read() == {"api_latency": 0.0, "api_inflight": 0.0, "api_errors": 0.0}


def test_the_window_slides_with_the_readings() -> None:
    recorder = ApiRecorder(slices=3)
    recorder.observe(5.0, error=True)
    for _ in range(3):
        assert recorder.read()["api_errors"] == 1.0
    assert recorder.read() == {"api_latency": 0.0, "api_inflight": 0.0, "api_errors": 0.0}


def test_memory_does_not_grow_with_the_number_of_requests() -> None:
    def size(recorder: ApiRecorder) -> int:
        return sum(sys.getsizeof(part.bins) for part in recorder._slices)

    recorder = ApiRecorder()
    for _ in range(40):
        recorder.read()
    before = size(recorder)
    for number in range(20_000):
        recorder.observe(number / 1_000)
        if number % 500 == 0:
            recorder.read()
    assert size(recorder) == before


def test_threads_lose_no_request() -> None:
    recorder = ApiRecorder()

    def work() -> None:
        for _ in range(2_000):
            with recorder.in_flight():
                recorder.observe(0.001, error=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder._slices[-1].count == recorder._slices[-1].errors == 8_000
    assert recorder._in_flight == 0


@pytest.mark.parametrize("latency", [-1.0, math.nan, math.inf])
def test_a_latency_that_cannot_be_is_refused_by_field(latency: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        ApiRecorder().observe(latency)
    assert refused.value.field == "latency_s"


def test_observe_feeds_the_recorder_of_the_process() -> None:
    RECORDER.read()
    before = sum(part.count for part in RECORDER._slices)
    observe(latency_s=0.2, error=True)
    assert sum(part.count for part in RECORDER._slices) == before + 1


# -- ASGI ---------------------------------------------------------------------------------------------------------

Message = MutableMapping[str, Any]


class Watch:
    """A stopwatch that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def serve_asgi(app: Callable[..., Any], kind: str = "http") -> tuple[ApiRecorder, list[Message], Exception | None]:
    recorder, sent, raised = ApiRecorder(), [], None

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await AsgiLoad(app, recorder, watch)({"type": kind}, receive, send)

    watch = Watch()
    app.watch = watch  # type: ignore[attr-defined]
    try:
        asyncio.run(run())
    except ZeroDivisionError as error:
        raised = error
    return recorder, sent, raised


def replies(status: int) -> Callable[..., Any]:
    async def app(scope: Message, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        app.watch.seconds += 0.5  # type: ignore[attr-defined]
        await send({"type": "http.response.start", "status": status, "headers": []})
        app.watch.seconds += 60  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b"late"})

    return app


@pytest.mark.parametrize(("status", "errors"), [(200, 0.0), (404, 0.0), (500, 1.0), (503, 1.0)])
def test_asgi_requests_are_timed_to_the_start_of_the_reply(status: int, errors: float) -> None:
    recorder, sent, _ = serve_asgi(replies(status))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    expected = {"api_latency": pytest.approx(0.5, rel=0.1), "api_inflight": 1.0, "api_errors": errors}
    assert recorder.read() == expected
    assert recorder._in_flight == 0


def test_an_asgi_application_that_raises_is_an_error_and_raises_still() -> None:
    async def app(scope: Message, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        raise ZeroDivisionError

    recorder, _, raised = serve_asgi(app)
    assert isinstance(raised, ZeroDivisionError)
    assert recorder.read()["api_errors"] == 1.0
    assert recorder._in_flight == 0


def test_other_asgi_connections_are_passed_through() -> None:
    recorder, sent, _ = serve_asgi(replies(200), kind="lifespan")
    assert len(sent) == 2
    assert recorder.read()["api_latency"] == 0.0


def test_without_a_stopwatch_the_event_loop_tells_the_time() -> None:
    recorder = ApiRecorder()

    async def app(scope: Message, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        assert recorder._in_flight == 1

    asyncio.run(AsgiLoad(app, recorder)({"type": "http"}, send, send))  # type: ignore[arg-type]
    assert recorder.read()["api_latency"] > 0.0


# -- WSGI ---------------------------------------------------------------------------------------------------------


def test_wsgi_requests_are_in_flight_until_the_body_is_closed() -> None:
    recorder, watch, closed = ApiRecorder(), Watch(), []

    class Body(list[bytes]):
        def close(self) -> None:
            closed.append(True)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        watch.seconds += 0.25
        start_response("500 Internal Server Error", [])
        return Body([b"a", b"b"])

    statuses: list[str] = []
    body = WsgiLoad(app, watch, recorder)({}, lambda status, _: statuses.append(status))
    assert list(body) == [b"a", b"b"]
    assert recorder._in_flight == 1
    body.close()  # type: ignore[attr-defined]
    body.close()  # type: ignore[attr-defined]
    assert recorder._in_flight == 0
    assert (statuses, closed) == (["500 Internal Server Error"], [True, True])
    assert recorder.read() == {"api_latency": pytest.approx(0.25, rel=0.1), "api_inflight": 1.0, "api_errors": 1.0}


def test_a_wsgi_application_that_raises_is_an_error_and_raises_still() -> None:
    recorder = ApiRecorder()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        WsgiLoad(app, Watch(), recorder)({}, lambda *_: None)
    assert recorder.read()["api_errors"] == 1.0
    assert recorder._in_flight == 0


def test_a_wsgi_body_that_raises_half_way_is_counted_once() -> None:
    recorder = ApiRecorder()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [])
        yield b"a"
        raise ZeroDivisionError

    body = WsgiLoad(app, Watch(), recorder)({}, lambda *_: None)
    with pytest.raises(ZeroDivisionError):
        list(body)
    assert sum(part.count for part in recorder._slices) == 1
