"""Sizes, durations and instants as people write them, and sums that come back to zero."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InvalidInput
from headgate.core.quantities import LARGEST, amount, duration, instant, resources, size, total


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("512MB", 512 * 10**6),
        ("8GB", 8 * 10**9),
        ("2GiB", 2 * 2**30),
        ("1.5 kb", 1_500),
        ("1KiB", 1_024),
        (" 3 TB ", 3 * 10**12),
        ("7", 7),
        ("0.5", 0.5),
        ("1PiB", 2**50),
    ],
)
def test_sizes_are_read_as_written(written: str, meant: float) -> None:
    assert size(written, "memory") == meant
    assert amount(written, "memory") == meant


@pytest.mark.parametrize("wrong", ["", "GB", "8 GB RAM", "-1GB", "1e3", "8XB", "٣GB", "0x10", "1,5GB", "nan", "inf"])
def test_what_is_no_size_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="memory"):
        amount(wrong, "memory")


WRONG: list[Any] = [-1, -0.5, float("nan"), float("inf"), 2**53 + 1, 10**400, True, None, [], {}, b"1", "9" * 400]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_amount_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="cpu"):
        amount(wrong, "cpu")


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (0, 0),
        (30, 30_000),
        (0.25, 250),
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("7", 7_000),
        ("1.5min", 90_000),
    ],
)
def test_durations_are_seconds_unless_they_say_otherwise(written: Any, ms: int) -> None:
    assert duration(written, "timeout") == ms


@pytest.mark.parametrize("wrong", [*WRONG, "5 parsecs", "1H", "-3s", "", "1e400"])
def test_what_is_no_duration_is_refused(wrong: Any) -> None:
    if wrong == 2**53 + 1:
        wrong = 2**53 / 1000 + 1
    with pytest.raises(InvalidInput, match="timeout"):
        duration(wrong, "timeout")


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (1.5, 1_500),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:02", 2_000),
        ("2024-02-29", 1_709_164_800_000),
    ],
)
def test_instants_are_seconds_or_iso_times(written: Any, ms: int) -> None:
    assert instant(written, "deadline") == ms


@pytest.mark.parametrize(
    "wrong", ["yesterday", "2023-02-29", "1969-12-31", "0001-01-01T00:00+14:00", "\0", "\ud800", True]
)
def test_what_is_no_instant_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="deadline"):
        instant(wrong, "deadline")


SHARES = st.one_of(st.integers(0, 2**20), st.floats(0, 2**20))
SIZES = st.one_of(st.integers(0, 2**45), st.floats(2**20, 2**45), st.floats(1, 900).map(lambda size: f"{size:.3f}GiB"))


@given(st.lists(SHARES, max_size=40) | st.lists(SIZES, max_size=40), st.integers(0, 2**32))
def test_a_ledger_that_adds_and_subtracts_in_any_order_comes_back_to_zero(values: list[Any], seed: int) -> None:
    exact = [amount(value, "cpu") for value in values]
    ledger = sum(exact)
    random.Random(seed).shuffle(exact)
    for value in exact:
        ledger -= value
    assert ledger == 0


@given(st.floats(0, LARGEST))
def test_a_fraction_moves_by_less_than_a_grain(value: float) -> None:
    assert abs(amount(value, "cpu") - value) <= (2**-17 if value < 2**20 else 0.5)


def test_a_size_is_a_whole_number_of_bytes() -> None:
    assert amount("1.3GiB", "memory") == 1_395_864_371


def test_resources_are_canonical() -> None:
    assert resources({"memory": "1KB", "cpu": 2, "disk": 0}, "resources") == (("cpu", 2), ("memory", 1_000))
    with pytest.raises(InvalidInput) as caught:
        resources({"memory": "lots"}, "resources")
    assert caught.value.field == "resources.memory"


def test_totals_leave_out_what_sums_to_zero() -> None:
    assert total([(("cpu", 1),), (("cpu", -1), ("memory", 2))]) == {"memory": 2}
