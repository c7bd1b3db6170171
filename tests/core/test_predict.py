"""Expected starts: what they rest on, and what is counted of them."""

from __future__ import annotations

from typing import Any, cast

from headgate.core import commands as c
from headgate.core.predict import MOST_STATED, MOST_TYPES, Predictor, RunTimes
from headgate.testing import Harness, job, worker


def taught(*, run: int = 10_000, job_type: str = "generic") -> Predictor:
    predictor = Predictor()
    for _ in range(20):
        predictor.ran(job_type, run)
    return predictor


def busy_harness(slots: int = 1) -> Harness:
    h = Harness(total_units=100, lease_ttl=10**9)
    h.join(worker("w", slots=slots))
    return h


def test_a_job_is_expected_when_those_before_it_will_have_run() -> None:
    h, predictor = busy_harness(), taught()
    names = [h.submit(job(name)) for name in "abcd"]
    h.cycle()
    h.tell(c.Start(h.state.jobs["a"].lease.id, h.state.jobs["a"].lease.token))  # type: ignore[union-attr]
    expected = [predictor.estimate(h.state, name, h.now) for name in names]
    assert expected[0] is None, "it runs already"
    waits = [(estimate.start - h.now) / 10_000 for estimate in expected[1:] if estimate is not None]
    assert [round(wait) for wait in waits] == [1, 2, 3]
    assert all(e.low <= e.start <= e.high for e in expected[1:] if e is not None)


def test_more_slots_drain_the_queue_faster() -> None:
    h, predictor = busy_harness(slots=3), taught()
    for number in range(9):
        h.submit(job(f"j{number}"))
    h.cycle()
    last = predictor.estimate(h.state, "j8", h.now)
    assert last is not None
    assert round((last.start - h.now) / 10_000) == 2


def test_units_bind_as_slots_do() -> None:
    h, predictor = busy_harness(slots=50), taught()
    for number in range(4):
        h.submit(job(f"j{number}", units=60))
    h.cycle()
    last = predictor.estimate(h.state, "j3", h.now)
    assert last is not None
    assert round((last.start - h.now) / 10_000) == 3


def test_a_job_that_may_not_start_yet_is_not_expected_before_its_time() -> None:
    h, predictor = busy_harness(), taught()
    h.submit(job("later", not_before=h.now + 3_600_000))
    estimate = predictor.estimate(h.state, "later", h.now)
    assert estimate is not None
    assert estimate.low >= h.now + 3_600_000


def test_jobs_that_wait_for_other_jobs_or_do_not_exist_have_no_estimate() -> None:
    h, predictor = busy_harness(), taught()
    first = h.submit(job("first"))
    h.submit(job("second", after=[first]))
    assert predictor.estimate(h.state, "second", h.now) is None
    assert predictor.estimate(h.state, "nobody", h.now) is None


def test_a_hundred_thousand_waiting_jobs_cost_no_more_than_a_few() -> None:
    h = Harness(total_units=100, careful=False)
    h.join(worker("w", slots=4))
    h.submit_all([job("j") for _ in range(20_000)])
    h.cycle()
    estimate = taught().estimate(h.state, list(h.state.jobs)[-1], h.now)
    assert estimate is not None
    assert 0.8 < (estimate.start - h.now) / (20_000 / 4 * 10_000) < 1.2


def test_what_became_of_a_statement_is_counted_once() -> None:
    h, predictor = busy_harness(), taught()
    for name in "abc":
        h.submit(job(name))
    h.cycle()
    first = predictor.state(h.state, "b", h.now)
    again = predictor.state(h.state, "b", h.now + 99)
    assert first is not None
    assert first == again, "the first statement stands"
    assert predictor.accuracy.stated == 1
    predictor.started("b", first.start)
    predictor.started("b", first.start)
    assert (predictor.accuracy.started, predictor.accuracy.inside) == (1, 1)
    late = predictor.state(h.state, "c", h.now)
    assert late is not None
    predictor.started("c", late.high + 1)
    assert (predictor.accuracy.after, predictor.accuracy.share_inside) == (1, 0.5)


def test_a_job_that_never_starts_teaches_nothing() -> None:
    h, predictor = busy_harness(), taught()
    h.submit(job("a"))
    predictor.state(h.state, "a", h.now)
    predictor.forget("a")
    predictor.started("a", h.now + 5)
    assert (predictor.accuracy.stated, predictor.accuracy.started) == (1, 0)


def test_misses_widen_the_interval_and_hits_narrow_it() -> None:
    predictor = Predictor()
    h = busy_harness()
    h.submit(job("a"))
    h.cycle()
    for number in range(300):
        name = f"j{number}"
        h.submit(job(name))
        estimate = predictor.state(h.state, name, h.now)
        assert estimate is not None
        predictor.started(name, estimate.stated_at + (1_000 if number % 2 else 3_000_000))
        h.tell(c.Cancel(name))
    h.submit(job("now"))
    estimate = predictor.estimate(h.state, "now", h.now)
    assert estimate is not None
    assert estimate.low - h.now <= 1_200
    assert estimate.high - h.now >= 2_500_000
    assert estimate.learned_from == 300


def test_memory_is_bounded_by_types_and_by_statements() -> None:
    runs = RunTimes()
    for number in range(MOST_TYPES + 50):
        runs.add(f"type-{number}", 1_000)
    assert len(runs._by_type) == MOST_TYPES
    assert "type-0" not in runs._by_type
    predictor, h = taught(), busy_harness()
    h.submit(job("a"))
    predictor._stated.update(dict.fromkeys(map(str, range(MOST_STATED)), cast("Any", None)))
    assert predictor.state(h.state, "a", h.now) is None


def test_the_types_own_run_times_count_once_there_are_some() -> None:
    runs = RunTimes()
    for _ in range(100):
        runs.add("long", 1_000_000)
    assert runs.expected("short", None, said=5_000) == 5_000
    assert runs.expected("short", None, None) > 900_000
    for _ in range(10):
        runs.add("short", 2_000)
    assert 1_800 < runs.expected("short", None, said=5_000) < 2_200
    assert runs.expected("long", limit=60_000, said=None) == 60_000


def test_nothing_is_expected_before_a_shut_gate_can_open_again() -> None:
    h, predictor = Harness(fixed_busy=None, recalculate=60_000, poll=10**6), taught()
    h.join(worker("w"))
    h.sample(cpu=0.1)
    h.submit(job("j"))
    open_gate = predictor.estimate(h.state, "j", h.now)
    assert open_gate is not None
    assert open_gate.low == h.now
    h.sample(cpu=1.0)
    h.clock.advance(20_000)
    shut = predictor.estimate(h.state, "j", h.now)
    assert shut is not None
    assert shut.low == h.now + 40_000
