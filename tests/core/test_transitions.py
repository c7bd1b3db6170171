"""Every state and everything that can happen in it: the table decides, and what it does not list changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import Dispatch, NotQueued, Preempt
from headgate.core.apply import apply
from headgate.core.errors import Conflict, IllegalTransition, StaleLease
from headgate.core.lease import Lease
from headgate.core.states import LEASED, TERMINAL, TRANSITIONS, WAITING, JobState, Trigger, diagram, step
from headgate.testing import Harness, job, snapshot, worker

S, T = JobState, Trigger
PAIRS = [(state, trigger) for state in JobState for trigger in Trigger]

EXPECTED = {
    S.BLOCKED: {T.UNBLOCK: S.QUEUED, T.DEPENDENCY_FAILED: S.FAILED, T.MISS_DEADLINE: S.EXPIRED, T.CANCEL: S.CANCELLED},
    S.QUEUED: {T.GRANT: S.LEASED, T.MISS_DEADLINE: S.EXPIRED, T.CANCEL: S.CANCELLED},
    S.LEASED: {
        T.START: S.RUNNING,
        T.EXPIRE: S.EXPIRED,
        T.RETRY: S.QUEUED,
        T.RELEASE: S.QUEUED,
        T.PREEMPT: S.QUEUED,
        T.CANCEL: S.CANCELLED,
    },
    S.RUNNING: {
        T.COMPLETE: S.COMPLETED,
        T.FAIL: S.FAILED,
        T.EXPIRE: S.EXPIRED,
        T.RETRY: S.QUEUED,
        T.RELEASE: S.QUEUED,
        T.PREEMPT: S.QUEUED,
        T.CANCEL: S.CANCELLED,
    },
}
"""The domain's picture, written down a second time by hand."""


def in_state(state: JobState) -> Harness:
    """A harness with a job `j` in that state, one worker `w`, and a job that `j` may wait for."""
    h = Harness(lease_ttl=10_000)
    h.join(worker("w", slots=3))
    waits = ["first"] if state is S.BLOCKED else []
    h.submit(job("first", priority="high"))
    fields: dict[str, Any] = {"deadline": h.now / 1000 + 5} if state in WAITING else {}
    h.submit(job("j", after=waits, priority="low", **fields))
    if state in LEASED | {S.COMPLETED, S.FAILED, S.EXPIRED}:
        h.grant("j", "w")
    if state in {S.RUNNING, S.COMPLETED, S.FAILED}:
        h.start("j")
    endings: dict[JobState, Callable[[], None]] = {
        S.COMPLETED: lambda: h.complete("j"),
        S.FAILED: lambda: h.fail("j"),
        S.EXPIRED: lambda: h.advance(10_000),
        S.CANCELLED: lambda: h.cancel("j"),
    }
    endings.get(state, lambda: None)()
    h.is_(state, "j")
    return h


def test_the_table_is_the_one_of_the_domain() -> None:
    told = {(state, trigger): after for state, row in EXPECTED.items() for trigger, after in row.items()}
    assert told == TRANSITIONS
    assert {state for state, _ in TRANSITIONS} == set(JobState) - TERMINAL


@pytest.mark.parametrize(("state", "trigger"), PAIRS)
def test_a_step_is_in_the_table_or_illegal(state: JobState, trigger: Trigger) -> None:
    if (state, trigger) in TRANSITIONS:
        assert step(state, trigger) is TRANSITIONS[state, trigger]
        return
    with pytest.raises(IllegalTransition) as caught:
        step(state, trigger)
    assert (caught.value.state, caught.value.trigger) == (state, trigger)


@pytest.mark.parametrize(("state", "trigger"), [pair for pair in PAIRS if pair not in TRANSITIONS])
def test_an_illegal_event_is_not_applied_and_changes_nothing(state: JobState, trigger: Trigger) -> None:
    h = in_state(state)
    before = snapshot(h.state)
    with pytest.raises(IllegalTransition):
        h.state.move(h.state.job("j"), trigger)
    assert snapshot(h.state) == before


@pytest.mark.parametrize(
    ("state", "event"), [(state, kind) for state in sorted(TERMINAL) for kind in ("cancel", "deadline")]
)
def test_no_event_leads_out_of_an_end(state: JobState, event: str) -> None:
    h = in_state(state)
    made = {"cancel": e.JobCancelled(h.now, "j"), "deadline": e.DeadlineMissed(h.now, "j")}[event]
    with pytest.raises(IllegalTransition):
        apply(h.state, made)
    h.is_(state, "j")


# -- the same walk with real commands ------------------------------------------------------------------------------


def _lease(h: Harness) -> Lease:
    """The job's live lease, or its last, or the one that it might get next."""
    live = h.state.job("j").lease
    old = [lease for lease in h.leases if lease.job_id == "j"]
    return live or (old[-1] if old else h_next(h))


def h_next(h: Harness) -> Lease:
    number = h.state.tokens + 1
    return Lease(f"1-{number}", "j", "w", "default", "default", 1, (), 1 << 40 | number, 0, 0, 0, 1, 1)


def _said(word: Callable[[str, int], c.Command[Any]]) -> Callable[[Harness], None]:
    def say(h: Harness) -> None:
        lease = _lease(h)
        h.tell(word(lease.id, lease.token))

    return say


def _dispatch(h: Harness) -> None:
    refusal = h.schedule(Dispatch("j", "w"))
    if refusal is not None:
        raise Conflict(refusal.detail())


def _let_first_end(h: Harness, *, well: bool) -> None:
    h.hear("w")
    h.grant("first", "w")
    h.start("first")
    if well:
        h.complete("first")
    else:
        h.fail("first")


VERBS: dict[str, tuple[Callable[[Harness], None], dict[JobState, JobState]]] = {
    "dispatch": (_dispatch, {S.QUEUED: S.LEASED}),
    "start": (_said(c.Start), {S.LEASED: S.RUNNING, S.RUNNING: S.RUNNING}),
    "complete": (_said(c.Complete), {S.RUNNING: S.COMPLETED, S.COMPLETED: S.COMPLETED}),
    "fail": (
        _said(lambda lease, token: c.Fail(lease, token, e.Failure("error"))),
        {S.RUNNING: S.FAILED, S.FAILED: S.FAILED},
    ),
    "release": (_said(c.Release), {S.LEASED: S.QUEUED, S.RUNNING: S.QUEUED}),
    "heartbeat": (_said(c.Heartbeat), {S.LEASED: S.LEASED, S.RUNNING: S.RUNNING}),
    "progress": (_said(c.Progress), {S.LEASED: S.LEASED, S.RUNNING: S.RUNNING}),
    "cancel": (
        lambda h: h.cancel("j"),
        dict.fromkeys([S.BLOCKED, S.QUEUED, S.LEASED, S.RUNNING, S.CANCELLED], S.CANCELLED),
    ),
    "patch": (lambda h: h.patch("j", rank=5), {S.BLOCKED: S.BLOCKED, S.QUEUED: S.QUEUED}),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", list(JobState))
def test_every_command_in_every_state_does_what_the_table_says_or_changes_nothing(state: JobState, verb: str) -> None:
    h = in_state(state)
    say, leads_to = VERBS[verb]
    if state in leads_to:
        say(h)
        h.is_(leads_to[state], "j")
        return
    before = snapshot(h.state)
    with pytest.raises(Conflict) as caught:
        say(h)
    assert snapshot(h.state) == before
    if verb in ("cancel", "patch"):
        assert isinstance(caught.value, IllegalTransition)


@pytest.mark.parametrize("state", list(JobState))
def test_time_ends_what_the_table_lets_it_end(state: JobState) -> None:
    h = in_state(state)
    h.advance(60_000)
    h.is_(S.EXPIRED if state in WAITING | LEASED else state, "j")


@pytest.mark.parametrize("well", [True, False])
@pytest.mark.parametrize("state", list(JobState))
def test_only_a_blocked_job_is_moved_by_the_end_of_another(state: JobState, well: bool) -> None:
    h = in_state(state)
    _let_first_end(h, well=well)
    h.is_((S.QUEUED if well else S.FAILED) if state is S.BLOCKED else state, "j")


@pytest.mark.parametrize("state", list(JobState))
def test_only_the_holder_of_a_lease_is_preempted(state: JobState) -> None:
    h = in_state(state)
    h.submit(job("urgent", priority="high", units=100))
    if state in LEASED:
        assert h.schedule(Preempt("urgent", ("j",))) is None
        h.advance(10_000)
        h.is_(S.QUEUED, "j")
    else:
        assert "holds no lease" in str(h.schedule(Preempt("urgent", ("j",))))
        h.is_(state, "j")


@pytest.mark.parametrize("state", sorted(set(JobState) - {S.QUEUED}))
def test_a_job_that_is_not_queued_is_not_dispatched(state: JobState) -> None:
    reason = in_state(state).schedule(Dispatch("j", "w"))
    assert isinstance(reason, NotQueued)
    assert reason.state.startswith(state)


def test_a_retry_leads_back_to_the_queue_and_uses_up_an_attempt() -> None:
    h = Harness()
    h.join(worker("w"))
    h.submit(job("j", retry={"attempts": 2, "initial": 1, "jitter": 0}))
    h.cycle()
    h.start("j")
    h.fail("j")
    h.is_(S.QUEUED, "j")
    h.advance(1_000)
    h.cycle()
    assert h.lease("j").attempt == 2
    h.start("j")
    h.fail("j")
    h.is_(S.FAILED, "j")


def test_a_word_on_a_lease_of_a_cancelled_job_is_stale() -> None:
    h = in_state(S.RUNNING)
    lease = h.lease("j")
    h.cancel("j")
    with pytest.raises(StaleLease):
        h.tell(c.Complete(lease.id, lease.token))


def test_the_diagram_shows_every_step_of_the_table() -> None:
    drawn = diagram()
    for (before, trigger), after in TRANSITIONS.items():
        line = next(line for line in drawn.splitlines() if line.startswith(f"    {before} --> {after}:"))
        assert trigger.replace("_", " ") in line
    for state in TERMINAL:
        assert f"    {state} --> [*]" in drawn
