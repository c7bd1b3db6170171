"""The timer wheel against a dictionary that is searched from end to end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.core.timers import Wheel

KEYS = st.integers(0, 30)
TIMES = st.one_of(st.integers(0, 2_000), st.integers(0, 10**12), st.sampled_from([255, 256, 257, 511, 512]))


class WheelMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.wheel: Wheel[int] = Wheel()
        self.naive: dict[int, int] = {}

    @rule(key=KEYS, at=TIMES)
    def set(self, key: int, at: int) -> None:
        self.wheel.set(key, at)
        self.naive[key] = at

    @rule(key=KEYS)
    def drop(self, key: int) -> None:
        self.wheel.drop(key)
        self.naive.pop(key, None)

    @rule(now=TIMES, handled=st.booleans())
    def fire(self, now: int, handled: bool) -> None:
        due = self.wheel.due(now)
        assert sorted(due) == sorted(key for key, at in self.naive.items() if at <= now)
        assert [self.naive[key] for key in due] == sorted(self.naive[key] for key in due)
        for key in due if handled else ():
            self.drop(key)

    @invariant()
    def agrees(self) -> None:
        assert len(self.wheel) == len(self.naive)
        assert self.wheel.next() == min(self.naive.values(), default=None)
        for key in range(31):
            assert (key in self.wheel) == (key in self.naive)
            assert self.wheel.at(key) == self.naive.get(key)


WheelMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestWheelMachine = WheelMachine.TestCase


def test_what_was_due_and_not_handled_is_due_again() -> None:
    wheel: Wheel[str] = Wheel()
    wheel.set("a", 5)
    assert wheel.due(10) == ["a"]
    assert wheel.due(10) == ["a"]
    wheel.set("a", 700)
    assert wheel.due(10) == []
    assert wheel.due(700) == ["a"]


def test_firing_is_exact_to_the_millisecond() -> None:
    wheel: Wheel[int] = Wheel()
    for at in (299, 300, 301):
        wheel.set(at, at)
    assert wheel.due(298) == []
    assert wheel.due(300) == [299, 300]


def test_moving_timers_leaves_no_empty_slots_behind_for_long() -> None:
    wheel: Wheel[str] = Wheel()
    for at in range(0, 10_000_000, 1_000):
        wheel.set("only", at)
        wheel.due(at - 1)
    assert len(wheel._slots) <= 2
    assert len(wheel._order) <= 2
