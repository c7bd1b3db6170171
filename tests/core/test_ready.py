"""The ready queue: class, standing of the tenant, rank, submission. A naive sorted list is the judge."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.core.bucket import Bucket
from headgate.core.commands import Tick, WorkerBeat
from headgate.core.events import JobAged
from headgate.core.states import JobState
from headgate.testing import Harness, job, tenant, worker


def one_at_a_time(**changes: Any) -> Harness:
    h = Harness(**changes)
    h.join(worker("w"))
    return h


def order_of(h: Harness) -> list[str]:
    """Who runs when, as the cycle decides it."""
    ran = []
    while granted := h.cycle():
        ran += granted
        h.run(*granted)
    return ran


def test_jobs_run_by_class_then_rank_then_submission() -> None:
    h = one_at_a_time()
    h.submit_all(
        [
            job("background", priority="background"),
            job("low", priority="low"),
            job("batch", priority="batch"),
            job("normal"),
            job("normal-later"),
            job("normal-first", rank=1),
            job("normal-last", rank=-1),
            job("high", priority="high"),
            job("interactive", priority="interactive"),
            job("five", priority=5, rank=9),
            job("one", priority=1),
            job("two", priority=2, rank=2),
        ]
    )
    expected = ["five", "high", "interactive", "normal-first", "normal", "normal-later", "normal-last"]
    expected += ["two", "low", "batch", "background", "one"]
    assert h.queue() == expected
    assert order_of(h) == expected


def test_a_job_that_comes_back_returns_to_its_place() -> None:
    h = one_at_a_time(preemption=False)
    h.submit_all(job(f"j{n}") for n in range(5))
    h.grant("j1", "w")
    h.submit(job("late"))
    h.release("j1")
    assert h.queue() == ["j0", "j1", "j2", "j3", "j4", "late"]
    h.grant("j3", "w")
    h.release("j3")
    assert order_of(h) == ["j0", "j1", "j2", "j3", "j4", "late"]


def test_a_job_that_comes_back_after_its_entry_was_passed_over_returns_to_its_place() -> None:
    h = one_at_a_time()
    h.submit_all(job(f"j{n}") for n in range(6))
    for _ in range(3):  # each grant passes over the head
        assert h.cycle() == ["j0"]
        h.release("j0")
    h.cycle()
    h.patch("j4", rank=3)
    h.release("j0")
    assert h.queue() == ["j4", "j0", "j1", "j2", "j3", "j5"]


def test_a_job_changed_and_changed_back_keeps_its_place_and_meets_no_ghost() -> None:
    h = one_at_a_time()
    h.submit_all(job(f"j{n}") for n in range(4))
    for _ in range(3):
        for name in ("j0", "j1", "j2"):
            h.patch(name, priority="low", rank=7)
            h.patch(name, priority="normal", rank=0)
            h.patch(name, labels=(("a", "b"),))
            h.patch(name, labels=())
    assert h.queue() == ["j0", "j1", "j2", "j3"]
    assert order_of(h) == ["j0", "j1", "j2", "j3"]


def test_dead_entries_are_swept_out() -> None:
    h = one_at_a_time()
    h.careful = False
    h.submit_all(job(f"j{n}") for n in range(1_000))
    for n in range(990):
        h.cancel(f"j{n}")
    (bucket,) = h.state.ready.buckets()
    assert bucket.live == 10
    assert bucket.dead <= 64
    assert len(list(bucket._line)) <= 74
    assert h.queue() == [f"j{n}" for n in range(990, 1_000)]


def test_a_job_waits_for_its_time() -> None:
    h = one_at_a_time()
    h.submit(job("later", not_before=h.now / 1000 + 10))
    h.submit(job("now", not_before=h.now / 1000))
    assert h.queue() == ["now"]
    assert h.state.next_timer() == h.now + 10_000
    h.advance(9_999)
    assert h.queue() == ["now"]
    h.advance(1)
    assert h.queue() == ["later", "now"]


def test_postponing_takes_a_job_out_of_the_queue_and_back() -> None:
    h = one_at_a_time()
    h.submit_all([job("a"), job("b")])
    h.patch("a", not_before=h.now + 5_000)
    assert h.queue() == ["b"]
    h.patch("a", not_before=None)
    assert h.queue() == ["a", "b"]


# -- ageing --------------------------------------------------------------------------------------------------------


def test_waiting_lifts_a_job_by_one_class_at_a_time() -> None:
    h = one_at_a_time(ageing=60_000, preemption=False, lease_ttl=10**9)
    h.submit(job("old", priority="background"))
    h.submit(job("in-the-way"))
    h.grant("in-the-way", "w")
    found = []
    for _ in range(4):
        h.advance(59_999)
        found.append(h.state.job("old").kind.job_class)
        h.advance(1)
        found.append(h.state.job("old").kind.job_class)
    assert found == [3, 2, 2, 1, 1, 0, 0, 0]
    assert len(h.seen(JobAged)) == 3
    assert h.state.job("old").kind.of.priority == "background"


def test_ageing_brings_a_background_job_ahead_of_newer_normal_ones() -> None:
    h = one_at_a_time(ageing=60_000)
    h.submit(job("old", priority="background"))
    for minute in range(3):
        h.submit(job(f"n{minute}", priority="normal"))
        h.advance(60_000)
    assert h.queue()[0] == "old"


def test_ageing_may_be_turned_off() -> None:
    h = one_at_a_time(ageing=0)
    h.submit(job("old", priority="background"))
    h.advance(10_000_000_000)
    assert h.state.job("old").kind.job_class == 3


def test_an_aged_job_that_is_changed_is_of_its_own_class_again() -> None:
    h = one_at_a_time(ageing=1_000)
    h.submit(job("old", priority="low"))
    h.advance(1_000)
    assert h.state.job("old").kind.job_class == 1
    h.patch("old", priority="background")
    assert h.state.job("old").kind.job_class == 3


# -- fair share ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 3, "b": 1}, {"a": 1, "b": 2, "c": 5}])
def test_in_the_long_run_tenants_get_what_their_weights_say(weights: dict[str, int]) -> None:
    h = Harness(total_units=8, fair_half_life=600_000, careful=False)
    h.join(worker("w", slots=8))
    for name, weight in weights.items():
        h.tenant(tenant(name, weight=weight))
        h.submit_all(job(f"{name}{n}", tenant=name) for n in range(2_000))
    held = dict.fromkeys(weights, 0)
    for _ in range(200):
        h.cycle()
        for name in weights:
            held[name] += h.state.tenant(name).leases
        h.clock.advance(1_000)
        # Half of what runs ends in each second, the oldest first.
        for lease in list(h.state.leases.values())[:4]:
            h.run(lease.job_id)
    total, whole = sum(weights.values()), sum(held.values())
    for name, weight in weights.items():
        assert held[name] / whole == pytest.approx(weight / total, abs=0.08)


def test_a_tenant_that_comes_late_goes_ahead_of_one_that_had_much() -> None:
    h = one_at_a_time()
    h.submit_all(job(f"a{n}", tenant="a") for n in range(4))
    h.cycle()
    h.submit(job("b0", tenant="b"))
    h.clock.advance(10_000)
    h.run("a0")
    assert h.cycle() == ["b0"]


def test_a_light_tenant_that_rested_is_served_beside_a_heavy_one() -> None:
    """What it had long ago is forgiven, though nothing happened to it since."""
    h = Harness(total_units=4, fair_half_life=10_000, lease_ttl=10**9, worker_silence=10**9, ageing=0)
    h.join(worker("w", slots=4))
    h.tenant(tenant("heavy", weight=20))
    h.submit_all([*(job(f"l{n}", tenant="light") for n in range(4)), job("h", tenant="heavy")])
    for n in range(4):
        h.grant(f"l{n}", "w")
    h.advance(60_000)
    h.run("l0", "l1", "l2", "l3")
    h.submit_all(job(f"h{n}", tenant="heavy") for n in range(200))
    h.cycle()
    h.advance(100_000)
    h.submit(job("light-again", tenant="light"))
    for _ in range(40):
        h.advance(1_000)
        h.run(min(h.state.leases.values(), key=lambda lease: lease.token).job_id)
        if "light-again" in h.cycle():
            return
    raise AssertionError("it starves")


def test_classes_come_before_fair_share() -> None:
    h = one_at_a_time()
    h.submit_all([job("a0", tenant="a"), job("b0", tenant="b", priority="low"), job("a1", tenant="a")])
    assert order_of(h) == ["a0", "a1", "b0"]


def test_past_use_is_forgiven_with_its_half_life() -> None:
    h = one_at_a_time(fair_half_life=1_000)
    h.submit_all([job("a0", tenant="a"), job("b0", tenant="b")])
    assert h.cycle() == ["a0"]
    h.advance(10_000)
    h.run("a0")
    used = h.state.tenant("a").decayed(h.now, 1_000)
    assert used == pytest.approx(h.state.tenant("a").usage)
    assert h.state.tenant("a").decayed(h.now + 3_000, 1_000) == pytest.approx(used / 8)


# -- the model -----------------------------------------------------------------------------------------------------


class QueueMachine(RuleBasedStateMachine):
    """One tenant, several shapes: the order must be that of a plain sort, whatever came, left and came back."""

    def __init__(self) -> None:
        super().__init__()
        self.h = Harness(total_units=1_000, ageing=20_000, preemption=False, lease_ttl=10**9)
        self.h.careful = False
        self.h.join(worker("w", slots=1_000))
        self.made = 0

    def one(self, pick: int, *states: JobState) -> str | None:
        jobs = [job.id for job in self.h.state.jobs.values() if job.state in states]
        return jobs[pick % len(jobs)] if jobs else None

    pick = st.integers(0, 1_000)

    @rule(
        count=st.integers(1, 6),
        priority=st.sampled_from(["high", "normal", "low"]),
        rank=st.integers(-1, 1),
        units=st.integers(1, 2),
        wait=st.sampled_from([0, 0, 0, 2]),
    )
    def submit(self, count: int, priority: str, rank: int, units: int, wait: int) -> None:
        begin = self.h.now / 1000 + wait
        for _ in range(count):
            self.made += 1
            spec = job(f"j{self.made}", priority=priority, rank=rank, units=units, not_before=begin, retry=3)
            self.h.submit(spec)

    @rule(pick=pick)
    def grant_any(self, pick: int) -> None:
        ready = self.h.queue()
        if ready:
            self.h.grant(ready[pick % len(ready)], "w")

    @rule()
    def grant_first(self) -> None:
        first = self.h.queue()[:1]
        found = self.h.state.ready.seek(-2, (), lambda bucket, head: (bucket, head))
        if found is None:
            assert not first
            return
        bucket, head = found
        assert [head.id] == first
        assert isinstance(bucket, Bucket)
        self.h.grant(head.id, "w")

    @rule(pick=pick, how=st.sampled_from(["release", "fail", "complete", "cancel"]))
    def end(self, pick: int, how: str) -> None:
        name = self.one(pick, JobState.LEASED)
        if name is None:
            return
        if how in ("fail", "complete"):
            self.h.start(name)
        getattr(self.h, how)(name)

    @rule(pick=pick)
    def cancel(self, pick: int) -> None:
        name = self.one(pick, JobState.QUEUED)
        if name is not None:
            self.h.cancel(name)

    @rule(pick=pick, rank=st.integers(-1, 1), priority=st.sampled_from(["high", "normal", "low"]))
    def patch(self, pick: int, rank: int, priority: str) -> None:
        name = self.one(pick, JobState.QUEUED)
        if name is not None:
            self.h.patch(name, rank=rank, priority=priority)

    @rule(ms=st.sampled_from([100, 1_000, 20_000]))
    def time_passes(self, ms: int) -> None:
        self.h.clock.advance(ms)
        self.h.tell(WorkerBeat("w"))
        self.h.tell(Tick())

    @invariant()
    def agrees_with_a_sorted_list(self) -> None:
        ticked = self.h.state.ticked_at
        waiting = [job for job in self.h.state.jobs.values() if job.state is JobState.QUEUED]
        ready = [job for job in waiting if job.ready or (job.not_before or 0) <= ticked]
        ready.sort(key=lambda job: (job.kind.job_class, -job.kind.of.rank, job.seq))
        assert self.h.queue() == [job.id for job in ready]
        first = self.h.state.ready.seek(-2, (), lambda _, head: head.id)
        assert first == next(iter(self.h.queue()), None)


QueueMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=50)
TestQueueMachine = QueueMachine.TestCase


def test_an_external_shape_that_comes_after_the_workers_were_given_up_is_not_given_up_with_them() -> None:
    h = Harness(fixed_busy=0, total_units=100)
    for name, units in (("held", 80), ("waits", 30), ("fits", 20)):
        h.submit(job(name, run={"kind": "external"}, units=units), id=name)
        h.cycle()
    assert h.state.jobs["fits"].state is JobState.LEASED
