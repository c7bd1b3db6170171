"""What is not known, too old or not to be believed counts as 10, and nothing is granted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.actions import BusyGate, Dispatch
from headgate.core.commands import SampleLoad, WithdrawLoad
from headgate.core.errors import InvalidInput
from headgate.core.events import CapacityChanged, LoadSampled, decode, encode
from headgate.core.settings import Settings
from headgate.testing import Harness, external, job, worker

ODD: list[Any] = [
    float("nan"),
    float("inf"),
    float("-inf"),
    -0.1,
    -1,
    1e300,
    10**400,
    -(10**400),
    None,
    True,
    False,
    "0.1",
    "",
    [],
    {},
]


def harness(**changes: Any) -> Harness:
    h = Harness(Settings(**changes))
    h.join(worker("w", slots=9))
    h.submit_all([job("j"), job("none", units=0), external("e"), external("free", units=0)])
    return h


def grants_nothing(h: Harness) -> None:
    assert h.cycle() == []
    for name, where in [("j", "w"), ("none", "w"), ("e", None), ("free", None)]:
        reason = h.schedule(Dispatch(name, where))
        assert isinstance(reason, BusyGate)
        assert reason.rating == 10
        assert reason.because
    assert not h.state.leases


def test_without_a_sample_nothing_is_granted() -> None:
    h = harness()
    grants_nothing(h)
    h.tick()
    grants_nothing(h)
    assert h.state.load.rating == 10


def test_a_sample_opens_the_gate() -> None:
    h = harness()
    h.sample(cpu=0.1)
    assert len(h.cycle()) == 4


@pytest.mark.parametrize("value", ODD)
def test_a_value_that_cannot_be_believed_counts_as_ten(value: Any) -> None:
    h = harness()
    assert h.sample(cpu=0.1, memory=value) == 10
    grants_nothing(h)
    assert any(reason.startswith("memory:") for reason in h.state.load.reasons)


@pytest.mark.parametrize("value", ODD)
def test_a_value_that_cannot_be_believed_shuts_an_open_gate_at_once(value: Any) -> None:
    h = harness(points=((0, 1.0), (10, 1.0)))
    h.sample(cpu=0.1)
    h.clock.advance(10)
    h.sample(cpu=value)
    grants_nothing(h)


def test_an_empty_sample_and_an_unknown_signal_count_as_ten() -> None:
    samples: list[dict[str, float | None]] = [{}, {"cpu": 0.1, "phlogiston": 0.0}]
    for signals in samples:
        h = harness()
        assert h.tell(SampleLoad("host", signals)) == 10
        grants_nothing(h)


def test_a_sample_without_a_source_is_refused() -> None:
    with pytest.raises(InvalidInput, match="source"):
        harness().sample("", cpu=0.1)


def test_a_sample_older_than_three_polls_is_stale_even_before_anyone_looks() -> None:
    h = harness()
    h.sample(cpu=0.0)
    h.clock.advance(15_000)
    assert h.state.usable_units(h.now) == 100
    h.clock.advance(1)
    assert h.state.usable_units(h.now) == 0
    grants_nothing(h)
    h.tick()
    assert h.state.load.rating == 10
    grants_nothing(h)


def test_one_silent_source_is_enough_and_a_withdrawn_one_is_not_missed() -> None:
    h = harness()
    h.sample(cpu=0.0)
    h.sample("api", api_latency=0.1)
    h.clock.advance(15_001)
    h.sample(cpu=0.0)
    grants_nothing(h)
    assert h.state.load.reasons == ("no fresh sample from api",)
    h.tell(WithdrawLoad("api"))
    h.tell(WithdrawLoad("never spoke"))
    for _ in range(60):
        h.clock.advance(5_000)
        h.sample(cpu=0.0)
    assert len(h.cycle()) == 4


def test_withdrawing_a_required_source_shuts_the_gate() -> None:
    h = harness()
    h.sample(cpu=0.0)
    h.tell(WithdrawLoad("host"))
    grants_nothing(h)


def test_a_source_from_the_past_does_not_open_the_gate() -> None:
    h = harness()
    h.tell(SampleLoad("host", {"cpu": 0.0}), at=h.now - 20_000)
    grants_nothing(h)


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "gpu", "what"]), anything, max_size=4))
def test_whatever_a_sample_holds_it_gets_a_rating_and_can_be_written_and_read_back(signals: dict[str, Any]) -> None:
    h = harness()
    rating = h.tell(SampleLoad("host", signals))
    assert 0 <= rating <= 10
    events = h.seen(LoadSampled)
    assert encode(decode(encode([*events]))) == encode([*events])
    for name, value in signals.items():
        if value is None or isinstance(value, bool | str) or not 0 <= value <= 1e9 or name == "what":
            assert rating == 10


def test_a_gate_shut_for_want_of_a_word_opens_with_the_word() -> None:
    h = Harness(fixed_busy=None)
    h.advance(1_000)  # a service ticks before its sampler has measured anything
    assert h.state.usable_units(h.now) == 0
    h.sample(cpu=0.1)
    assert (h.state.load.rating, h.state.usable_units(h.now)) == (0.0, 100)
    assert [event.cause for event in h.seen(CapacityChanged)] == ["first", "heard"]


def test_silence_does_not_make_earlier_load_forgotten() -> None:
    h = Harness(fixed_busy=None, fall_half_life=30_000)
    h.sample(cpu=0.9)
    h.advance(15_001)
    assert h.state.usable_units(h.now) == 0
    h.advance(14_999)
    h.sample(cpu=0.1)
    assert h.state.load.rating == pytest.approx(4.0, abs=0.01), "half of the eight that were measured"
    assert h.state.usable_units(h.now) == 60


def test_load_that_was_measured_still_has_to_prove_that_it_is_gone() -> None:
    h = Harness(fixed_busy=None, poll=10**6)
    h.sample(cpu=1.0)
    h.advance(1_000)
    h.sample(cpu=0.1)
    assert h.state.usable_units(h.now) == 0
