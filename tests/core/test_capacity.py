"""Busy rating and usable units: the line, the table of points, the reserve, the minute."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import commands as c
from headgate.core.capacity import Load, Sample, rate_signal, usable_units
from headgate.core.errors import InvalidSettings
from headgate.core.events import CapacityChanged
from headgate.core.job_input import Limits
from headgate.core.settings import SIGNALS, Settings, Threshold, TimeOfDay, Window, check_settings
from headgate.core.state import State
from headgate.testing import Harness, job, worker


def usable(busy: float, **changes: Any) -> int:
    return usable_units(busy, Settings(**changes))


@pytest.mark.parametrize(("busy", "units"), [(0, 100), (1, 90), (5, 50), (7.1, 29), (9, 10), (9.95, 0), (10, 0)])
def test_usable_units_fall_in_a_straight_line(busy: float, units: int) -> None:
    assert usable(busy) == units


@pytest.mark.parametrize("busy", [float("nan"), float("inf"), 10.0, 11.0])
def test_nothing_is_usable_where_the_rating_is_full_or_no_number(busy: float) -> None:
    assert usable(busy) == 0
    assert usable(busy, points=((0, 1), (10, 0.5))) == 0


def test_the_reserve_is_kept_back_and_never_makes_units_negative() -> None:
    assert usable(5, reserve=20) == 30
    assert usable(9, reserve=20) == 0


@pytest.mark.parametrize(("busy", "units"), [(0, 80), (2, 80), (4, 60), (6, 40), (8, 20), (9, 10), (10, 0)])
def test_points_replace_the_line(busy: float, units: int) -> None:
    assert usable(busy, points=((6, 0.4), (2, 0.8))) == units


@given(st.floats(0, 10), st.floats(0, 10), st.integers(0, 10**9), st.integers(0, 1_000))
def test_a_higher_rating_never_leaves_more(one: float, other: float, total: int, reserve: int) -> None:
    low, high = sorted((one, other))
    more, less = (usable(busy, total_units=total, reserve=reserve) for busy in (low, high))
    assert 0 <= less <= more <= total


BAD_HOUR = Window("mon", cast("Any", 1.5), 2, 0.5)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"points": ((11, 0.5),)}, "points"),
        ({"points": ((5, 1.5),)}, "points"),
        ({"points": ((5, 0.5), (5, 0.4))}, "points"),
        ({"total_units": -1}, "total_units"),
        ({"reserve": -1}, "reserve"),
        ({"recalculate": 0}, "recalculate"),
        ({"lease_ttl": 0}, "lease_ttl"),
        ({"fixed_busy": 11}, "fixed_busy"),
        ({"signals": {"cpu": Threshold(1, 1)}}, "signals.cpu"),
        ({"signals": {"cpu": Threshold(float("nan"), 1)}}, "signals.cpu.low"),
        ({"signals": {"cpu": Threshold(0, 1, float("inf"))}}, "signals.cpu.largest"),
        ({"signals": {"cpu": Threshold(-1, 1)}}, "signals.cpu"),
        ({"signals": {"cpu": Threshold(cast("Any", "0.5"), 1)}}, "signals.cpu.low"),
        ({"signals": {"cpu": 0.5}}, "signals.cpu"),
        ({"signals": {" ": Threshold(0, 1)}}, "signals. "),
        ({"signals": [("cpu", 1)]}, "signals"),
        ({"points": ((2, 0.5), (8, 0.9))}, "points"),
        ({"points": ((2, "half"),)}, "points"),
        ({"points": ((2, float("nan")),)}, "points"),
        ({"total_units": "100"}, "total_units"),
        ({"total_units": 1.5}, "total_units"),
        ({"total_units": True}, "total_units"),
        ({"total_units": 2**60}, "total_units"),
        ({"total_units": None}, "total_units"),
        ({"lease_ttl": float("nan")}, "lease_ttl"),
        ({"fixed_busy": float("nan")}, "fixed_busy"),
        ({"fixed_busy": "5"}, "fixed_busy"),
        ({"fixed_busy": False}, "fixed_busy"),
        ({"preemption": 1}, "preemption"),
        ({"preempting_classes": (4,)}, "preempting_classes"),
        ({"preemptible_classes": ("low",)}, "preemptible_classes"),
        ({"preemptible_classes": {2, 3}}, "preemptible_classes"),
        ({"required_sources": "host"}, "required_sources"),
        ({"required_sources": ("",)}, "required_sources"),
        ({"required_pools": (7,)}, "required_pools"),
        ({"worker_silence": 0}, "worker_silence"),
        ({"pool_degraded": -1}, "pool_degraded"),
        ({"pool_offline": 1}, "pool_offline"),
        ({"limits": Limits(payload=0)}, "limits.payload"),
        ({"limits": Limits(text=cast("Any", "long"))}, "limits.text"),
        ({"limits": Threshold(0, 1)}, "limits"),
        ({"time_of_day": TimeOfDay(least=float("nan"))}, "time_of_day.least"),
        (
            {"time_of_day": TimeOfDay(windows=(Window("mon", cast("Any", 1.5), 2, 0.5),))},
            "time_of_day.windows[0].start",
        ),
    ],
)
def test_settings_that_make_no_sense_name_their_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        check_settings(Settings(**changes))
    assert caught.value.field == field


def test_settings_are_told_in_words_what_was_expected() -> None:
    with pytest.raises(InvalidSettings, match="total_units: must be a whole number, not text"):
        State(Settings(total_units="many"))  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match=r"fixed_busy: must be a number or nothing, not true or false"):
        State(Settings(fixed_busy=True))


def test_a_list_where_a_tuple_belongs_is_one() -> None:
    made = check_settings(Settings(required_sources=["host", "api"], points=[[5, 1]]))  # type: ignore[arg-type]
    assert made.required_sources == ("host", "api")
    assert made.points == ((5.0, 1.0),)
    assert check_settings(Settings()) == Settings()


@pytest.mark.parametrize("name", SIGNALS)
def test_each_signal_rises_from_its_low_to_its_high_threshold(name: str) -> None:
    threshold = SIGNALS[name]
    middle = (threshold.low + threshold.high) / 2
    assert rate_signal(0, threshold) == 0
    assert rate_signal(threshold.low, threshold) == 0
    assert rate_signal(middle, threshold) == pytest.approx(5)
    assert rate_signal(threshold.high, threshold) == 10
    assert rate_signal(threshold.largest * 1.01, threshold) == 10


def measured(**changes: Any) -> Harness:
    h = Harness(Settings(**changes))
    h.join(worker("w", slots=50))
    return h


def test_the_bottleneck_decides() -> None:
    h = measured()
    assert h.sample(cpu=0.6, memory=0.8) == pytest.approx(4)
    assert h.state.load.signals == pytest.approx({"cpu": 2, "memory": 4})
    assert h.sample("api", api_latency=1.5) == pytest.approx(7.142857)


@pytest.mark.parametrize(("cpu", "units"), [(0.5, 100), (0.75, 50), (0.95, 10), (1.0, 0)])
def test_leases_are_granted_up_to_what_the_rating_leaves(cpu: float, units: int) -> None:
    h = measured()
    h.sample(cpu=cpu)
    h.submit_all(job("j", units=5) for _ in range(30))
    assert len(h.cycle()) == units // 5
    assert h.state.leased_units == units


def test_a_spike_denies_new_leases_at_once_and_touches_none_that_live() -> None:
    h = measured()
    h.sample(cpu=0.1)
    h.submit_all(job("j", units=10) for _ in range(4))
    assert len(h.cycle()) == 4
    late = h.submit(job("late", units=1))
    before = {id_: lease.expires_at for id_, lease in h.state.leases.items()}
    h.clock.advance(1_000)
    h.sample(cpu=0.95)
    assert h.seen(CapacityChanged)[-1].cause == "spike"
    assert h.state.usable_units(h.now) == 10
    assert h.cycle() == []
    h.is_("queued", late)
    h.tick()
    assert {id_: lease.expires_at for id_, lease in h.state.leases.items()} == before
    for running in before:
        h.run(h.state.leases[running].job_id)
    assert h.cycle() == [late]


def test_the_rating_rises_at_once_and_falls_by_half_in_each_half_life() -> None:
    h = measured(fall_half_life=10_000, poll=100_000)
    h.sample(cpu=0.5)
    assert h.sample(cpu=0.9) == pytest.approx(8)
    for expected in (4, 2, 1):
        h.clock.advance(10_000)
        assert h.sample(cpu=0.5) == pytest.approx(expected)
    assert h.sample(cpu=0.9) == pytest.approx(8)


def test_a_rating_that_stood_still_for_long_falls_from_when_the_load_fell() -> None:
    h = measured(fall_half_life=10_000)
    for _ in range(100):
        h.clock.advance(5_000)
        assert h.sample(cpu=2.0) == 10
    h.clock.advance(5_000)
    assert h.sample(cpu=0.0) == pytest.approx(10 * 0.5**0.5)


def test_how_often_time_is_looked_at_does_not_change_how_fast_the_rating_falls() -> None:
    ratings = []
    for step in (1, 40, 10_000):
        h = measured(fall_half_life=5_000, poll=100_000)
        h.careful = False
        h.sample(cpu=1.0)
        h.sample(cpu=0.0)
        h.advance(10_000, step=step)
        ratings.append(h.state.load.rating)
    assert ratings == pytest.approx([2.5, 2.5, 2.5], abs=0.01)


def test_capacity_follows_a_falling_rating_every_minute() -> None:
    h = measured(fall_half_life=1)
    h.sample(cpu=1.0)
    assert h.state.usable_units(h.now) == 0
    for second in range(1, 60):
        h.clock.advance(1_000)
        h.sample(cpu=0.0)
        assert h.state.usable_units(h.now) == 0, second
    h.clock.advance(1_000)
    h.sample(cpu=0.0)
    assert h.state.usable_units(h.now) == 100
    assert [event.cause for event in h.seen(CapacityChanged)] == ["first", "schedule"]


def test_a_fixed_rating_needs_no_samples() -> None:
    h = Harness(fixed_busy=5.0)
    h.advance(10_000_000)
    assert h.state.usable_units(h.now) == 50


def test_a_source_that_is_not_required_is_forgotten_after_long_silence_and_a_required_one_never() -> None:
    h = Harness(fixed_busy=None, forget_source=60_000)
    h.tell(c.SampleLoad("host", {"cpu": 0.1}))
    h.tell(c.SampleLoad("shop", {"api_errors": 0.0}))
    for _ in range(40):
        h.clock.advance(1_000)
        h.tell(c.SampleLoad("host", {"cpu": 0.1}))
        h.tell(c.Tick())
    assert "shop" in h.state.load.stale(h.now, h.state.settings)
    for _ in range(40):
        h.clock.advance(1_000)
        h.tell(c.SampleLoad("host", {"cpu": 0.1}))
        h.tell(c.Tick())
    assert h.state.load.stale(h.now, h.state.settings) == []
    h.clock.advance(120_000)
    h.tell(c.Tick())
    assert h.state.load.stale(h.now, h.state.settings) == ["host"]


words = st.tuples(st.sampled_from(["host", "shop", "lab"]), st.integers(0, 40_000), st.booleans())


@given(st.lists(words, max_size=8), st.integers(0, 80_000), st.sampled_from([(), ("host",), ("host", "lab")]))
def test_units_are_usable_exactly_while_nobody_is_silent(
    said: list[tuple[str, int, bool]], now: int, required: tuple[str, ...]
) -> None:
    settings = Settings(required_sources=required)
    load = Load(settings)
    load.usable = 7
    for source, at, leaves in said:
        if leaves and source in load.samples:
            load.withdraw(source, settings)
        else:
            load.hear(source, Sample(at, {}, {}, ()), settings)
    for moment in (now, *(at + settings.stale_after + late for _, at, _ in said for late in (0, 1))):
        assert load.usable_at(moment) == (0 if load.stale(moment, settings) else 7)
