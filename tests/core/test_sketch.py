"""Quantiles in constant memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.sketch import Durations, Sketch


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.floats(0, 1))
def test_a_quantile_is_right_to_the_width_of_a_bin(values: list[float], share: float) -> None:
    sketch = Sketch(0, 101, 1, memory=10**9)
    for value in values:
        sketch.add(value)
    ordered = sorted(values)
    place = share * len(ordered)
    near = {ordered[min(len(ordered) - 1, max(0, round(place) + step))] for step in (-1, 0, 1)}
    assert min(near) - 1 <= sketch.quantile(share) <= max(near) + 1


def test_the_newest_values_count_most() -> None:
    sketch = Sketch(0, 100, 1, memory=20)
    for _ in range(1_000):
        sketch.add(10)
    for _ in range(100):
        sketch.add(90)
    assert sketch.quantile(0.1) > 89


def test_a_million_values_neither_overflow_nor_take_room() -> None:
    sketch = Sketch(0, 100, 1, memory=5)
    source = random.Random(1)
    for _ in range(100_000):
        sketch.add(source.uniform(40, 60))
    assert 39 < sketch.quantile(0.5) < 61
    assert len(sketch._bins) == 100


def test_values_beyond_the_range_count_as_its_ends() -> None:
    sketch = Sketch(0, 10, 1, memory=100)
    sketch.add(-5)
    sketch.add(50)
    assert sketch.quantile(0.2) < 1
    assert sketch.quantile(0.9) > 9


@given(st.lists(st.floats(1, 1e10), min_size=20, max_size=200))
def test_durations_are_right_to_a_tenth(values: list[float]) -> None:
    durations = Durations(memory=10**9)
    for value in values:
        durations.add(value)
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2 - 1 : len(ordered) // 2 + 1]
    assert min(middle) / 1.11 <= durations.quantile(0.5) <= max(middle) * 1.11


def test_what_is_left_of_a_run_depends_on_how_long_it_has_lasted() -> None:
    durations = Durations(memory=10**9)
    for _ in range(50):
        durations.add(1_000)
        durations.add(1_000)
        durations.add(100_000)
    assert durations.left(0) < 1_200
    assert durations.left(5_000) == pytest.approx(95_000, rel=0.15)
    assert durations.left(500_000) == 500_000, "what has lasted longer than anything tends to last"
