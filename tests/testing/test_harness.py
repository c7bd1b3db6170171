"""The tools for tests are tested too: a harness that misses a broken state would make every test worthless."""

import pytest

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import Action, Dispatch
from headgate.core.errors import InvariantBroken, JobNotFound
from headgate.core.job import JobKind
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.testing import (
    Harness,
    ManualClock,
    SeededChance,
    SeededIds,
    Witness,
    difference,
    job,
    replayable,
    snapshot,
    worker,
)


def test_the_example_of_the_harness_runs() -> None:
    h = Harness(total_units=40)
    h.join(worker("w1", slots=2, memory="8GB"))
    a = h.submit(job("a", units=20))
    b = h.submit(job("b", units=20, after=[a]))
    h.cycle()
    h.holds("w1", [a])
    h.run(a)
    h.cycle()
    h.holds("w1", [b])


def test_a_manual_clock_moves_only_when_told_and_may_jump_back() -> None:
    clock = ManualClock(100)
    assert clock.now() == clock.now() == 100
    assert clock.advance(50) == 150
    assert clock.advance(-100) == 50
    assert clock.jump_to(7) == clock.now() == 7


def test_seeds_repeat_and_differ() -> None:
    assert [SeededChance(1).uniform() for _ in range(2)] == [SeededChance(1).uniform()] * 2
    assert SeededChance(1).bits(64) != SeededChance(2).bits(64)
    first, again, other = SeededIds(1), SeededIds(1), SeededIds(2)
    ids = [first.new() for _ in range(100)]
    assert ids == [again.new() for _ in range(100)]
    assert ids == sorted(set(ids))
    assert {len(id_) for id_ in ids} == {26}
    assert other.new() not in ids


def test_a_wrong_expectation_fails_the_test() -> None:
    h = Harness()
    h.join(worker("w"))
    h.submit(job("a"))
    with pytest.raises(AssertionError, match="holds \\[\\], not \\['a'\\]"):
        h.holds("w", ["a"])
    with pytest.raises(AssertionError, match="not running"):
        h.is_("running", "a")
    with pytest.raises(AssertionError, match="holds no lease"):
        h.start("a")
    with pytest.raises(AssertionError, match="got no lease"):
        h.grant("a", "nobody")


def test_everything_is_recorded() -> None:
    h = Harness()
    h.join(worker("w"))
    h.submit_all([job("a"), job("b")])
    h.cycle()
    h.schedule(Dispatch("b", "w"))
    assert [type(told.command) for told in h.commands] == [c.RegisterWorker, c.Submit, c.Schedule, c.Schedule]
    assert [lease.job_id for lease in h.leases] == ["a"]
    assert [refusal.action for refusal in h.refusals] == [Dispatch("b", "w")]
    assert [event.id for event in h.seen(e.JobSubmitted)] == ["a", "b"]


def test_any_policy_may_drive_the_harness_and_one_that_only_errs_is_stopped() -> None:
    class Backwards:
        def propose(self, state: State, now: int) -> list[Action]:
            ready = [job.id for job in state.ready]
            return [Dispatch(ready[-1], "w")] if ready else []

    h = Harness(policy=Backwards())
    h.join(worker("w", slots=2))
    h.submit_all([job("a"), job("b"), job("c")])
    assert h.cycle() == ["c", "b"]
    assert [refusal.action for refusal in h.refusals] == [Dispatch("a", "w")]


def test_a_broken_state_is_noticed_at_the_next_step() -> None:
    h = Harness()
    h.state.leased_units = 5
    with pytest.raises(InvariantBroken):
        h.tick()


def test_a_snapshot_shows_any_change_and_the_difference_names_it() -> None:
    h = Harness()
    h.submit(job("a"))
    before = snapshot(h.state)
    assert snapshot(h.state) == before
    h.state.job("a").attempt = 7
    assert snapshot(h.state) != before
    assert difference(before, snapshot(h.state)) == "state[0].jobs[0].attempt: 0 became 7"


def test_what_events_do_not_carry_is_in_the_snapshot_only() -> None:
    h = Harness()
    whole, carried = snapshot(h.state), replayable(h.state)
    h.state.now += 99
    assert snapshot(h.state) != whole
    assert replayable(h.state) == carried


def test_a_witness_notices_tokens_that_shrink() -> None:
    grant = e.LeaseGranted(1, "a", "1-1", 5, None, 9, 1)
    witness, state = Witness(), Harness().state
    witness.saw(state, [grant], 1)
    with pytest.raises(InvariantBroken, match="token 5"):
        witness.saw(state, [grant], 1)


def test_a_witness_notices_a_lost_job_and_an_end_undone() -> None:
    h = Harness()
    h.submit(job("a"))
    h.cancel("a")
    h.state.job("a").state = JobState.QUEUED
    with pytest.raises(InvariantBroken, match="was cancelled and is queued"):
        h.witness.saw(h.state, [], h.now)
    h.state.job("a").state = JobState.CANCELLED
    with pytest.raises(InvariantBroken, match="ended again"):
        h.witness.saw(h.state, [e.JobCancelled(h.now, "a")], h.now)
    del h.state.jobs["a"]
    with pytest.raises(InvariantBroken, match="lost"):
        h.witness.saw(h.state, [], h.now)
    with pytest.raises(JobNotFound):
        h.state_of("a")


def test_a_witness_notices_a_grant_beyond_capacity() -> None:
    h = Harness(total_units=1)
    h.state.leased_units = 2
    with pytest.raises(InvariantBroken, match="2 units are leased where 1"):
        h.witness.saw(h.state, [e.LeaseGranted(1, "a", "1-1", 5, None, 9, 1)], h.now)


def test_builders_say_what_they_are_given_and_leave_the_rest() -> None:
    assert job("proof", units=20, priority="high", after=["a"]).dependencies == ("a",)
    assert job().kind == JobKind()
    spec = worker("w1", slots=2, memory="8GB", labels={"b": "2", "a": "1"})
    assert (spec.slots, spec.resources, spec.labels) == (2, (("memory", 8 * 10**9),), (("a", "1"), ("b", "2")))
