import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.core.errors import HeadgateError, IllegalTransition, InvalidInput, JobNotFound, WorkerBusy
from headgate.worker import SingleSlot, SlotState

P, E, C, F = SlotState


def slot_in(state: SlotState | None) -> SingleSlot:
    slot = SingleSlot()
    if state is not None:
        slot.schedule("a")
    if state in (E, C, F):
        slot.mark_executing("a")
    if state is C:
        slot.mark_completed("a")
    if state is F:
        slot.mark_failed("a")
    return slot


def test_a_job_goes_from_pending_through_executing_to_its_end() -> None:
    for state in SlotState:
        assert slot_in(state).get_state("a") is state


@pytest.mark.parametrize(("state", "accepts"), [(None, True), (P, False), (E, False), (C, True), (F, True)])
def test_a_new_job_is_taken_only_where_none_is_under_way(state: SlotState | None, accepts: bool) -> None:
    slot = slot_in(state)
    assert slot.can_accept() is accepts
    if accepts:
        slot.schedule("b")
        assert slot.get_state("b") is P
        with pytest.raises(JobNotFound):
            slot.get_state("a")
    else:
        with pytest.raises(WorkerBusy, match="'a'"):
            slot.schedule("b")
        assert slot.get_state("a") is state


@pytest.mark.parametrize(("state", "cleared"), [(None, True), (P, False), (E, False), (C, True), (F, True)])
def test_clear_empties_the_slot_only_after_an_end(state: SlotState | None, cleared: bool) -> None:
    slot = slot_in(state)
    slot.clear()
    if cleared:
        with pytest.raises(JobNotFound):
            slot.get_state("a")
    else:
        assert slot.get_state("a") is state


MARKS: list[tuple[Callable[[SingleSlot, str], None], SlotState, SlotState]] = [
    (SingleSlot.mark_executing, P, E),
    (SingleSlot.mark_completed, E, C),
    (SingleSlot.mark_failed, E, F),
]


@pytest.mark.parametrize(("mark", "before", "after"), MARKS)
@pytest.mark.parametrize("state", [None, *SlotState])
def test_every_mark_in_every_state_moves_the_job_or_changes_nothing(
    mark: Callable[[SingleSlot, str], None], before: SlotState, after: SlotState, state: SlotState | None
) -> None:
    slot = slot_in(state)
    with pytest.raises(JobNotFound):
        mark(slot, "other")
    if state is before:
        mark(slot, "a")
        assert slot.get_state("a") is after
        return
    with pytest.raises(JobNotFound if state is None else IllegalTransition):
        mark(slot, "a")
    if state is not None:
        assert slot.get_state("a") is state


@pytest.mark.parametrize("bad", ["", None, 5, b"a"])
def test_what_is_no_job_id_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="job_id"):
        SingleSlot().schedule(bad)  # type: ignore[arg-type]


def test_of_many_threads_exactly_one_gets_the_slot() -> None:
    threads, rounds = 8, 50
    slot, together = SingleSlot(), threading.Barrier(threads)
    winners: list[str] = []

    def compete(name: str) -> None:
        for number in range(rounds):
            together.wait()
            try:
                slot.schedule(f"{name}-{number}")
            except WorkerBusy:
                pass
            else:
                winners.append(f"{name}-{number}")
            together.wait()
            if winners[number].startswith(f"{name}-"):
                slot.mark_executing(winners[number])
                slot.mark_completed(winners[number])

    runners = [threading.Thread(target=compete, args=(f"t{index}",)) for index in range(threads)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert len(winners) == rounds


class SlotMachine(RuleBasedStateMachine):
    """The slot against the four lines that say what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.slot = SingleSlot()
        self.job: str | None = None
        self.state: SlotState | None = None

    jobs = st.sampled_from(["a", "b", "c"])

    @rule(job=jobs)
    def schedule(self, job: str) -> None:
        if self.state in (P, E):
            with pytest.raises(WorkerBusy):
                self.slot.schedule(job)
        else:
            self.slot.schedule(job)
            self.job, self.state = job, P

    @rule(job=jobs, mark=st.sampled_from(MARKS))
    def mark(self, job: str, mark: tuple[Callable[[SingleSlot, str], None], SlotState, SlotState]) -> None:
        move, before, after = mark
        if self.job == job and self.state is before:
            move(self.slot, job)
            self.state = after
        else:
            with pytest.raises(HeadgateError):
                move(self.slot, job)

    @rule()
    def clear(self) -> None:
        self.slot.clear()
        if self.state in (C, F):
            self.job, self.state = None, None

    @invariant()
    def agrees(self) -> None:
        assert self.slot.can_accept() == (self.state not in (P, E))
        for job in ("a", "b", "c"):
            if job == self.job:
                assert self.slot.get_state(job) is self.state
            else:
                with pytest.raises(JobNotFound):
                    self.slot.get_state(job)


SlotMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestSlotMachine = SlotMachine.TestCase
