"""Retries, deadlines, timeouts, expiry, resuming, cancelling, changing, idempotency."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import Dispatch
from headgate.core.errors import (
    DuplicateJob,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    InvalidJob,
    JobNotFound,
    StaleLease,
)
from headgate.core.job import Retry
from headgate.testing import Harness, external, job, snapshot, worker


@pytest.fixture
def h() -> Harness:
    harness = Harness(lease_ttl=10_000, worker_silence=10**9)
    harness.join(worker("w", slots=9))
    return harness


def begin(h: Harness, name: str = "j", **fields: Any) -> None:
    h.submit(job(name, **fields))
    h.grant(name, "w")
    h.start(name)


# -- retries -------------------------------------------------------------------------------------------------------


def test_the_delay_doubles_up_to_its_longest(h: Harness) -> None:
    begin(h, retry={"attempts": 6, "initial": 1, "max": 5, "jitter": 0})
    delays = []
    for _ in range(5):
        h.fail("j")
        delays.append((h.state.job("j").not_before or 0) - h.now)
        assert h.queue() == []
        h.advance(delays[-1])
        h.grant("j", "w")
        h.start("j")
    assert delays == [1_000, 2_000, 4_000, 5_000, 5_000]
    h.fail("j")
    h.is_("failed", "j")


@given(
    st.integers(1, 1_000),
    st.integers(0, 10**7),
    st.floats(1, 1_000),
    st.integers(0, 10**9),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_the_delay_stays_within_its_jitter(
    attempt: int, initial: int, factor: float, most: int, jitter: float, chance: float
) -> None:
    delay = Retry(1_000, initial, factor, most, jitter).delay(attempt, chance)
    plain = Retry(1_000, initial, factor, most, 0.0).delay(attempt, 0.5)
    assert plain <= most
    assert plain * (1 - jitter) - 1 <= delay <= plain * (1 + jitter) + 1


def test_the_jitter_comes_from_the_given_chance() -> None:
    retry = Retry(5, 1_000, 2.0, 10_000, 0.5)
    assert [retry.delay(1, chance) for chance in (0.0, 0.5, 1.0)] == [500, 1_000, 1_500]
    times = set()
    for seed in range(5):
        h = Harness(seed=seed)
        h.join(worker("w"))
        begin(h, retry={"attempts": 2, "jitter": 1})
        h.fail("j")
        times.add(h.state.job("j").not_before)
    assert len(times) == 5


def test_only_the_outcomes_named_are_tried_again(h: Harness) -> None:
    begin(h, "a", retry={"attempts": 2, "on": ["expired"]})
    begin(h, "b", retry={"attempts": 2, "on": ["failed"]})
    h.fail("a")
    h.is_("failed", "a")
    h.advance(10_000)
    h.is_("expired", "b")


def test_a_holder_may_say_that_trying_again_is_no_use(h: Harness) -> None:
    begin(h, retry=5)
    h.fail("j", retry=False)
    h.is_("failed", "j")


def test_a_job_that_kills_its_holders_ends_at_its_last_attempt(h: Harness) -> None:
    h.submit(job("j", retry={"attempts": 3, "initial": 0}))
    for attempt in (1, 2, 3):
        h.hear("w")
        assert h.grant("j", "w").attempt == attempt
        h.advance(10_000)
    h.is_("expired", "j")
    h.hear("w")
    with pytest.raises(AssertionError):
        h.grant("j", "w")


def test_release_and_preemption_do_not_count_as_attempts(h: Harness) -> None:
    h.submit(job("j"))
    for _ in range(5):
        assert h.grant("j", "w").attempt == 1
        h.release("j")
    assert h.grant("j", "w").attempt == 1


# -- leases in time ------------------------------------------------------------------------------------------------


def test_a_worker_that_let_a_lease_run_out_in_silence_gets_nothing_until_it_is_heard(h: Harness) -> None:
    h.submit(job("j", retry={"attempts": 3, "initial": 0}))
    h.grant("j", "w")
    h.advance(10_000)
    assert h.state.worker("w").status == "offline"
    assert h.cycle() == []
    assert "offline" in str(h.schedule(Dispatch("j", "w")))
    h.hear("w")
    assert h.state.worker("w").status == "ready"
    assert h.cycle() == ["j"]


def test_a_worker_that_loses_one_lease_and_renews_another_is_not_doubted() -> None:
    h = Harness(lease_ttl=10_000)
    h.join(worker("w", slots=2))
    h.submit_all([job("forgotten"), job("kept")])
    h.cycle()
    for _ in range(4):
        h.advance(3_000)
        h.beat("kept")
    h.is_("expired", "forgotten")
    assert h.state.worker("w").status == "ready"


def test_a_lease_lives_on_heartbeats_and_dies_of_their_absence(h: Harness) -> None:
    begin(h)
    for _ in range(5):
        h.advance(9_999)
        assert h.beat("j").expires_at == h.now + 10_000
    h.advance(9_999)
    h.is_("running", "j")
    h.advance(1)
    h.is_("expired", "j")
    assert h.state.leased_units == 0


def test_progress_is_a_heartbeat_and_its_share_is_checked(h: Harness) -> None:
    begin(h)
    lease = h.lease("j")
    h.advance(5_000)
    assert h.tell(c.Progress(lease.id, lease.token, 0.5, "x" * 5_000)).expires_at == h.now + 10_000
    assert len(h.seen(e.JobProgressed)[0].note) == 1_000
    for wrong in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(InvalidInput, match="fraction"):
            h.tell(c.Progress(lease.id, lease.token, wrong))


def test_a_heartbeat_that_lags_does_not_shorten_the_lease(h: Harness) -> None:
    begin(h)
    lease = h.lease("j")
    until = lease.expires_at
    assert h.tell(c.Heartbeat(lease.id, lease.token), at=h.now - 5_000).expires_at == until


def test_after_a_pause_of_the_engine_every_lease_gets_a_full_ttl(h: Harness) -> None:
    begin(h, "a")
    begin(h, "b")
    h.submit(external("c"))
    h.grant("c")
    h.clock.advance(60_000)
    h.tell(c.Resume())
    h.advance(9_999)
    h.is_("running", "a", "b")
    h.is_("leased", "c")
    h.beat("b")
    h.advance(1)
    h.is_("expired", "a", "c")
    h.is_("running", "b")


def test_resuming_shortens_nothing(h: Harness) -> None:
    begin(h)
    until = h.lease("j").expires_at
    h.tell(c.Resume(), at=h.now - 5_000)
    assert h.lease("j").expires_at == until


def test_a_job_that_runs_longer_than_its_timeout_fails(h: Harness) -> None:
    begin(h, timeout=3)
    h.advance(2_999)
    h.beat("j")
    h.is_("running", "j")
    h.advance(1)
    h.is_("failed", "j")
    assert h.seen(e.AttemptFailed)[0].failure.code == "timeout"


def test_the_timeout_counts_from_the_start_of_each_attempt(h: Harness) -> None:
    h.submit(job("j", timeout=3, retry={"attempts": 2, "initial": 0}))
    h.grant("j", "w")
    h.advance(5_000)
    h.is_("leased", "j")
    h.start("j")
    h.advance(3_000)
    h.is_("queued", "j")
    h.grant("j", "w")
    h.start("j")
    h.advance(2_999)
    h.is_("running", "j")


def test_a_job_that_did_not_start_by_its_deadline_expires(h: Harness) -> None:
    h.submit(job("a", deadline=h.now / 1000 + 5))
    h.submit(job("b", deadline=h.now / 1000 + 5))
    h.grant("b", "w")
    h.advance(5_000)
    h.is_("expired", "a")
    h.is_("leased", "b")
    h.start("b")
    h.complete("b")


def test_a_job_that_comes_back_after_its_deadline_expires(h: Harness) -> None:
    h.submit(job("a", deadline=h.now / 1000 + 5))
    h.grant("a", "w")
    h.advance(6_000)
    h.release("a")
    h.tick()
    h.is_("expired", "a")


def test_a_deadline_before_the_earliest_start_is_refused() -> None:
    with pytest.raises(InvalidJob, match="deadline"):
        job("j", not_before=10, deadline=9)


# -- cancelling and changing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["blocked", "queued", "delayed", "leased", "running"])
def test_a_job_can_be_cancelled_wherever_it_is(h: Harness, state: str) -> None:
    h.submit(job("first"))
    after = ["first"] if state == "blocked" else []
    h.submit(job("j", after=after, not_before=h.now / 1000 + 60 if state == "delayed" else None))
    if state in ("leased", "running"):
        h.grant("j", "w")
    if state == "running":
        h.start("j")
    h.cancel("j")
    h.is_("cancelled", "j")
    h.cancel("j")
    assert len(h.seen(e.JobCancelled)) == 1
    assert h.state.leased_units == 0
    assert h.queue() == ["first"]


def test_a_job_that_is_not_there_cannot_be_cancelled_or_changed(h: Harness) -> None:
    with pytest.raises(JobNotFound):
        h.cancel("nobody")
    with pytest.raises(JobNotFound):
        h.patch("nobody", rank=1)


def test_a_running_holder_is_told_to_stop_at_its_next_heartbeat(h: Harness) -> None:
    begin(h)
    lease = h.lease("j")
    h.cancel("j")
    with pytest.raises(StaleLease, match="stop the work"):
        h.tell(c.Heartbeat(lease.id, lease.token))


def test_reprioritising_moves_a_waiting_job(h: Harness) -> None:
    h.submit_all([job("a"), job("b"), job("c", after=["a"])])
    h.patch("b", priority="high")
    assert h.queue() == ["b", "a"]
    h.patch("a", priority="interactive", rank=1)
    assert h.queue() == ["a", "b"]
    h.patch("c", priority="high", rank=9, labels=(("k", "v"),))
    h.grant("a", "w")
    h.run("a")
    assert h.queue() == ["c", "b"]
    assert h.state.job("c").kind.of.labels == (("k", "v"),)


def test_a_change_that_changes_nothing_leaves_no_trace(h: Harness) -> None:
    h.submit(job("a", rank=3))
    before = snapshot(h.state)
    h.patch("a")
    h.patch("a", rank=3, priority="normal")
    assert snapshot(h.state) == before


def test_an_unknown_priority_is_refused_and_a_started_job_cannot_be_changed(h: Harness) -> None:
    begin(h)
    with pytest.raises(IllegalTransition):
        h.patch("j", priority="high")
    h.submit(job("k"))
    with pytest.raises(InvalidJob) as caught:
        h.patch("k", priority="urgent")
    assert caught.value.field == "priority"


# -- idempotency ---------------------------------------------------------------------------------------------------


def test_the_same_key_and_body_give_the_same_job(h: Harness) -> None:
    spec = job("a", payload={"x": 1}, idempotency_key="k")
    first = h.submit(spec, id="one")
    answer = h.tell(c.Submit((c.NewJob("two", spec), c.NewJob("three", job("b")))))
    assert (answer.ids, answer.created) == ((first, "three"), (False, True))


def test_the_same_key_with_another_body_conflicts_and_names_the_first_job(h: Harness) -> None:
    h.submit(job("a", payload={"x": 1}, idempotency_key="k"), id="one")
    for other in (job("a", payload={"x": 2}, idempotency_key="k"), job("a", idempotency_key="k", units=2)):
        with pytest.raises(IdempotencyConflict) as caught:
            h.submit(other, id="two")
        assert caught.value.job_id == "one"


def test_keys_belong_to_tenants_and_count_within_a_bulk(h: Harness) -> None:
    specs = [job("a", idempotency_key="k"), job("a", idempotency_key="k"), job("a", idempotency_key="k", tenant="t")]
    answer = h.tell(c.Submit(tuple(c.NewJob(f"j{n}", spec) for n, spec in enumerate(specs))))
    assert answer.ids == ("j0", "j0", "j2")
    assert len(h.state.jobs) == 2


def test_a_changed_job_is_still_known_by_the_body_it_came_with(h: Harness) -> None:
    spec = job("a", idempotency_key="k")
    first = h.submit(spec)
    h.patch(first, rank=5)
    assert h.submit(spec, id="again") == first


def test_a_key_lasts_until_its_job_is_forgotten() -> None:
    h = Harness(retain_finished=2)
    spec = job("a", idempotency_key="k")
    h.submit(spec, id="one")
    h.cancel("one")
    h.tick()
    assert h.submit(spec, id="two") == "one"
    for n in range(2):
        h.cancel(h.submit(job(f"filler{n}")))
    h.tick()
    assert "one" not in h.state.jobs
    assert h.submit(spec, id="two") == "two"


def test_an_id_is_taken_once(h: Harness) -> None:
    h.submit(job("a"))
    with pytest.raises(DuplicateJob) as caught:
        h.tell(c.Submit((c.NewJob("b", job("b")), c.NewJob("a", job("c")))))
    assert caught.value.job_id == "a"
    with pytest.raises(DuplicateJob):
        h.tell(c.Submit((c.NewJob("b", job("b")), c.NewJob("b", job("c")))))
    assert list(h.state.jobs) == ["a"]


# -- forgetting ----------------------------------------------------------------------------------------------------


def test_finished_jobs_are_forgotten_oldest_first_and_live_ones_never() -> None:
    h = Harness(retain_finished=3)
    h.submit_all(job(f"j{n}") for n in range(10))
    for n in (4, 2, 7, 1, 9):
        h.cancel(f"j{n}")
    h.tick()
    assert set(h.state.jobs) == {"j0", "j3", "j5", "j6", "j8", "j7", "j1", "j9"}
    assert h.witness.forgotten == {"j4", "j2"}
    with pytest.raises(JobNotFound):
        h.cancel("j4")


def test_a_finished_job_lets_its_payload_go() -> None:
    h = Harness()
    h.submit(job("a", payload={"large": "x" * 1_000}))
    h.cancel("a")
    assert h.state.job("a").payload == b""


def test_kinds_of_forgotten_jobs_are_dropped() -> None:
    h = Harness(retain_finished=0)
    h.submit_all(job(f"j{n}", type=f"t{n}") for n in range(300))
    for n in range(300):
        h.cancel(f"j{n}")
    h.tick()
    h.tick()
    assert Counter(kind.jobs for kind in h.state.kinds.values()) == {}
