"""Capacity by the hour of the week: by hand, learned, and off by default."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import commands as c
from headgate.core.errors import InvalidSettings
from headgate.core.settings import Settings, TimeOfDay, Window, check_settings, days_of
from headgate.core.week import (
    HOUR,
    HOURS,
    PROFILE,
    Week,
    WeekLearner,
    decode_week,
    encode_week,
    hour_of_week,
    learned,
    weight_at,
    window_weight,
)
from headgate.testing import Harness, external

OFFICE = TimeOfDay(windows=(Window("mon-fri", 8, 18, 0.5), Window("wed", 12, 13, 0.0), Window("sat", 22, 4, 0.25)))


def at(day: str, hour: int) -> int:
    """A moment in a week of 2024; the first of January was a Monday."""
    number = ("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(day)
    return int(datetime(2024, 1, 1 + number, hour, 30, tzinfo=UTC).timestamp() * 1000)


@given(st.integers(0, 4_000_000_000_000))
def test_the_hour_of_the_week_is_that_of_the_calendar(now: int) -> None:
    moment = datetime.fromtimestamp(now / 1000, UTC)
    assert hour_of_week(now) == moment.weekday() * 24 + moment.hour


def test_the_hour_is_that_of_the_place() -> None:
    assert hour_of_week(at("mon", 23), 2 * HOUR) == 25


@pytest.mark.parametrize(
    ("day", "hour", "weight"),
    [
        ("mon", 7, None),
        ("mon", 8, 0.5),
        ("fri", 17, 0.5),
        ("fri", 18, None),
        ("wed", 12, 0.0),
        ("sat", 12, None),
        ("sat", 23, 0.25),
        ("sun", 3, 0.25),
        ("sun", 4, None),
    ],
)
def test_windows_by_hand_cover_their_hours_and_the_last_one_wins(day: str, hour: int, weight: float | None) -> None:
    assert window_weight(OFFICE, hour_of_week(at(day, hour))) == weight
    assert weight_at(at(day, hour), OFFICE, None) == (1.0 if weight is None else weight)


def test_days_can_be_ranges_lists_and_go_round_the_week() -> None:
    assert days_of("mon-fri") == (0, 1, 2, 3, 4)
    assert days_of("Sat, Sun") == (5, 6)
    assert days_of("fri-mon") == (4, 5, 6, 0)


def test_what_was_learned_counts_where_nothing_was_set_and_never_shuts_the_gate() -> None:
    week = learned(learned(Week(), hour_of_week(at("sun", 10)), 6.0), hour_of_week(at("mon", 9)), 6.0)
    body = encode_week(learned(week, hour_of_week(at("sun", 11)), 10.0))
    assert weight_at(at("sun", 10), OFFICE, body) == pytest.approx(0.4)
    assert weight_at(at("mon", 9), OFFICE, body) == 0.5, "the hand wins"
    assert weight_at(at("sun", 11), OFFICE, body) == 0.25, "the least"
    assert weight_at(at("sun", 10), msgspec.structs.replace(OFFICE, learn=False), body) == 1.0
    assert weight_at(at("sun", 10), None, body) == 1.0, "off by default"


def test_an_hour_forgets_over_the_weeks() -> None:
    week, hour = Week(), 5
    for _ in range(30):
        week = learned(week, hour, 8.0)
    for _ in range(30):
        week = learned(week, hour, 2.0)
    busy = week.busy[hour]
    assert busy is not None
    assert busy == pytest.approx(2.0, abs=0.01)


@given(st.lists(st.one_of(st.none(), st.floats(0, 10)), min_size=HOURS, max_size=HOURS))
def test_a_profile_survives_the_store(busy: list[float | None]) -> None:
    assert decode_week(encode_week(Week(tuple(busy)))) == Week(tuple(busy))


@pytest.mark.parametrize("body", [None, b"", b"nonsense", msgspec.msgpack.encode({"busy": [1.0]})])
def test_a_profile_that_cannot_be_read_counts_as_nothing_learned(body: bytes | None) -> None:
    assert decode_week(body) == Week()


def test_a_learner_speaks_up_once_an_hour_with_the_mean_of_what_others_caused() -> None:
    learner = WeekLearner()
    assert [learner.note(at("mon", 9), rating, held) for rating, held in ((8.0, 0.5), (5.0, 0.0))] == [None, None]
    body = learner.note(at("mon", 10), 1.0)
    assert decode_week(body).busy[9] == 4.0
    assert learner.note(at("mon", 10), 1.0) is None


def test_the_weight_becomes_units_where_capacity_is_recalculated() -> None:
    h = Harness(Settings(fixed_busy=2.0, time_of_day=OFFICE))
    h.clock.jump_to(at("mon", 7))
    h.tell(c.Tick())
    assert h.state.usable_units(h.now) == 80
    h.clock.jump_to(at("mon", 9))
    h.tell(c.Tick())
    assert h.state.usable_units(h.now) == 40
    h.clock.jump_to(at("wed", 12))
    h.tell(c.Tick())
    waiting = h.submit(external("a", units=1))
    h.cycle()
    assert h.state.jobs[waiting].lease is None
    h.clock.jump_to(at("wed", 14))
    h.tell(c.Tick())
    h.cycle()
    assert h.state.jobs[waiting].lease is not None


def test_the_learned_profile_is_a_document_of_the_engine() -> None:
    h = Harness(Settings(fixed_busy=0.0, time_of_day=TimeOfDay()))
    h.clock.jump_to(at("tue", 9))
    h.tell(c.PutDocument(*PROFILE, encode_week(learned(Week(), hour_of_week(h.now), 3.0))))
    h.tell(c.Tick())
    assert h.state.usable_units(h.now) == 70


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        (TimeOfDay(windows=(Window("monday", 1, 2, 0.5),)), "time_of_day.windows[0].days"),
        (TimeOfDay(windows=(Window("mon", 25, 2, 0.5),)), "time_of_day.windows[0]"),
        (TimeOfDay(windows=(Window("mon", 1, 2, 1.5),)), "time_of_day.windows[0].weight"),
        (TimeOfDay(least=2.0), "time_of_day.least"),
        (TimeOfDay(utc_offset=10**9), "time_of_day.utc_offset"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_field(setting: TimeOfDay, field: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        check_settings(Settings(time_of_day=setting))
    assert refused.value.field == field
