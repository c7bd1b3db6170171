"""The SDK behaves the same with and without `await`, on an embedded engine and on a server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import headgate
from headgate.app import App
from headgate.client.errors import JobCancelled, JobFailed, LeaseLost, NothingCanRun, ResultTimeout
from headgate.core import errors as e
from tests.client.conftest import MakeApp, Twin

WITHIN = 20.0


def test_a_function_runs_in_a_worker_and_its_result_comes_back(app: App, twin: Twin) -> None:
    @app.job(units=10, priority="high", retries=2)
    def verify(proof_id: str, *, strict: bool = False) -> dict[str, Any]:
        return {"proof": proof_id, "strict": strict}

    with app.running(workers=2):
        handle = twin.ask(twin.of(app).submit(verify.job("p-17", strict=True)))
        assert twin.ask(handle.result(timeout=WITHIN)) == {"proof": "p-17", "strict": True}
        assert twin.ask(handle.state) == "completed"
        info = twin.ask(handle.info())
        assert (info.units, info.priority, info.retry["attempts"]) == (10, "high", 3)
    assert verify("here") == {"proof": "here", "strict": False}


def test_an_error_in_the_handler_comes_back_with_its_type_message_and_traceback(app: App, twin: Twin) -> None:
    @app.job()
    def breaks() -> None:
        raise ValueError("the proof is wrong")

    with app.running():
        handle = twin.ask(twin.of(app).submit(breaks.job()))
        with pytest.raises(JobFailed, match="ValueError: the proof is wrong") as failed:
            twin.ask(handle.result(timeout=WITHIN))
    assert failed.value.error.code == "ValueError"
    assert "in breaks" in failed.value.error.traceback


def test_bulk_submission_keeps_the_order_and_takes_all_or_none(app: App, twin: Twin) -> None:
    @app.job()
    def square(number: int) -> int:
        return number * number

    with app.running(workers=2, prefetch=8):
        handles = twin.ask(twin.of(app).submit_many([square.job(number) for number in range(20)]))
        assert [twin.ask(handle.result(WITHIN)) for handle in handles] == [number * number for number in range(20)]
    before = twin.ask(twin.of(app).status()).jobs
    with pytest.raises(e.InvalidJob, match="units"):
        twin.ask(twin.of(app).submit_many([square.job(1), {**square.job(2), "units": -1}]))
    assert twin.ask(twin.of(app).status()).jobs == before


def test_an_unknown_job_is_a_typed_error(app: App, twin: Twin) -> None:
    with pytest.raises(headgate.JobNotFound):
        twin.ask(twin.of(app).get("01ARZ3NDEKTSV4RRFFQ69G5FAV"))


def test_invalid_jobs_name_the_field(app: App, twin: Twin) -> None:
    with pytest.raises(headgate.InvalidJob) as wrong:
        twin.ask(twin.of(app).submit(type="x", prioritty="high"))
    assert wrong.value.field == "prioritty"


def test_a_cancelled_job_stops_and_says_so(app: App, twin: Twin) -> None:
    began, stopped = threading.Event(), threading.Event()

    @app.job()
    def endless() -> None:
        began.set()
        try:
            headgate.current_job().wait(60)
        except headgate.JobStopped:
            stopped.set()
            raise

    with app.running():
        handle = twin.ask(twin.of(app).submit(endless.job()))
        assert began.wait(WITHIN)
        assert twin.ask(handle.cancel("enough")) is True
        assert stopped.wait(WITHIN)
        with pytest.raises(JobCancelled):
            twin.ask(handle.result(WITHIN))
        assert twin.ask(handle.cancel()) is False


def test_a_job_that_nothing_can_run_says_so_instead_of_hanging(app: App, twin: Twin) -> None:
    handle = twin.ask(twin.of(app).submit(type="nobody-knows"))
    follower = twin.ask(twin.of(app).submit(type="nobody-knows", dependencies=[handle]))
    with pytest.raises(NothingCanRun, match="there are no workers"):
        twin.ask(handle.result())
    with pytest.raises(NothingCanRun):
        twin.ask(follower.result())
    with pytest.raises(ResultTimeout, match="there are no workers"):
        twin.ask(handle.result(timeout=0.05))


def test_a_job_that_needs_more_units_than_there_are_says_so_instead_of_hanging(app: App, twin: Twin) -> None:
    handle = twin.ask(twin.of(app).submit(type="huge", units=10**9))
    with app.running(workers=1), pytest.raises(NothingCanRun, match="it can never start unless units are added"):
        twin.ask(handle.result())


def test_explain_and_events_tell_the_story_of_a_job(app: App, twin: Twin) -> None:
    @app.job()
    def quick() -> int:
        return 1

    handle = twin.ask(twin.of(app).submit(quick.job()))
    assert [reason["code"] for reason in twin.ask(handle.explain()).reasons] == ["no_fitting_worker"]
    with app.running():
        assert twin.ask(handle.result(WITHIN)) == 1
    told = [event.type for event in _settled_events(twin, handle)]
    assert told == ["job-submitted", "lease-granted", "job-started", "job-completed"]


def _settled_events(twin: Twin, handle: Any) -> list[Any]:
    """A server writes the history a fraction of a second later."""
    waited = threading.Event()
    events: list[Any] = []
    for _ in range(100):
        events = twin.ask(handle.events())
        if events and events[-1].type == "job-completed":
            break
        waited.wait(0.05)
    return events


def test_jobs_wait_for_those_they_depend_on(app: App, twin: Twin) -> None:
    order: list[str] = []

    @app.job()
    def step(name: str) -> None:
        order.append(name)

    sdk = twin.of(app)
    first = twin.ask(sdk.submit(step.job("first")))
    second = twin.ask(sdk.submit(step.job("second"), dependencies=[first]))
    third, fourth = twin.ask(
        sdk.submit_many(
            [{**step.job("third"), "dependencies": [second]}, {**step.job("fourth"), "dependencies": ["#0"]}]
        )
    )
    with app.running():
        twin.ask(fourth.result(WITHIN))
    assert order == ["first", "second", "third", "fourth"]
    assert twin.ask(third.state) == "completed"


def test_a_lease_blocks_until_there_is_room(app: App, twin: Twin) -> None:
    sdk = twin.of(app)
    with twin.holding(sdk.lease(units=80)) as first:
        assert not first.lost
        first.check()
        assert twin.ask(sdk.status()).capacity.leased_units == 80
        with pytest.raises(ResultTimeout, match="no lease within"), twin.holding(sdk.lease(units=30, timeout=0.05)):
            pytest.fail("there was no room")
        with twin.holding(sdk.lease(units=20, priority="low")):
            assert twin.ask(sdk.status()).capacity.leased_units == 100
    assert twin.ask(sdk.status()).capacity.leased_units == 0


def test_an_error_under_a_lease_fails_it_and_goes_on_to_the_caller(app: App, twin: Twin) -> None:
    with pytest.raises(KeyError), twin.holding(twin.of(app).lease(units=5)) as lease:
        raise KeyError("mine")
    handle = twin.ask(twin.of(app).get(lease.job_id))
    assert twin.ask(handle.state) == "failed"
    assert twin.ask(handle.info()).error.code == "KeyError"


def test_a_lease_that_was_taken_away_is_lost(make_app: MakeApp, twin: Twin) -> None:
    app = make_app(lease_ttl=2_000)

    def work() -> None:
        with twin.holding(twin.of(app).lease(units=5)) as lease:
            twin.ask(twin.ask(twin.of(app).get(lease.job_id)).cancel())
            for _ in range(500):
                threading.Event().wait(0.02)
                lease.check()

    with pytest.raises(LeaseLost):
        work()


def test_a_lease_is_renewed_while_the_work_goes_on(make_app: MakeApp, twin: Twin) -> None:
    app = make_app(lease_ttl=200)
    with twin.holding(twin.of(app).lease(units=5)) as lease:
        threading.Event().wait(0.7)
        assert not lease.lost
    assert twin.ask(twin.ask(twin.of(app).get(lease.job_id)).state) == "completed"


def test_what_a_job_prints_and_reports_is_kept(app: App, twin: Twin) -> None:
    @app.job()
    def talks() -> None:
        job = headgate.current_job()
        job.log("half way")
        job.progress(0.5, "half way")

    with app.running():
        handle = twin.ask(twin.of(app).submit(talks.job()))
        twin.ask(handle.result(WITHIN))
        assert twin.ask(handle.logs()) == "half way\n"


def test_a_full_queue_refuses_with_a_typed_error(make_app: MakeApp, twin: Twin) -> None:
    app = make_app(max_queue_depth=1)
    twin.ask(twin.of(app).submit(type="x"))
    with pytest.raises(headgate.QueueFull):
        twin.ask(twin.of(app).submit(type="x"))
