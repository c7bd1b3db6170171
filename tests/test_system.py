"""The clock, ids and chance of the operating system."""

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.system import CROCKFORD, ID_LENGTH, SystemChance, SystemClock, SystemIds

SECOND_NS = 1_000_000_000
HOUR_NS = 3_600 * SECOND_NS


class Hands:
    """A wall clock and a monotonic clock that a test can turn."""

    def __init__(self, wall_ns: int = 1_700_000_000 * SECOND_NS, monotonic_ns: int = 5 * SECOND_NS) -> None:
        self.wall_ns = wall_ns
        self.monotonic_ns = monotonic_ns

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.wall_ns, lambda: self.monotonic_ns)


class FixedChance(SystemChance):
    """Chance that always draws the same, so that only the ids' own rule keeps them apart."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        super().__init__()
        self._draw = draw

    def bits(self, count: int) -> int:
        return self._draw(count)


def test_the_clock_starts_at_wall_time_in_milliseconds() -> None:
    assert Hands(wall_ns=1_700_000_000_123_999_999).clock().now() == 1_700_000_000_123


def test_the_clock_moves_with_the_monotonic_clock() -> None:
    hands = Hands()
    clock = hands.clock()
    before = clock.now()
    hands.monotonic_ns += 1_500_000_000
    assert clock.now() - before == 1_500


@pytest.mark.parametrize("jump", [2 * HOUR_NS, -2 * HOUR_NS])
def test_a_jump_of_the_wall_clock_changes_nothing(jump: int) -> None:
    hands = Hands()
    clock = hands.clock()
    before = clock.now()
    hands.wall_ns += jump
    assert clock.now() == before


def test_the_real_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.now() for _ in range(10_000)]
    assert readings == sorted(readings)


def test_chance_draws_within_its_bounds() -> None:
    chance = SystemChance()
    assert all(0.0 <= chance.uniform() < 1.0 for _ in range(1_000))
    assert all(0 <= chance.bits(5) < 32 for _ in range(1_000))


def test_an_id_is_26_characters_of_crockford_base_32() -> None:
    assert re.fullmatch(f"[{CROCKFORD}]{{{ID_LENGTH}}}", SystemIds(SystemClock(), SystemChance()).new())


def test_an_id_encodes_the_millisecond_as_a_ulid_does() -> None:
    # The example timestamp of the ULID specification.
    hands = Hands(wall_ns=1_469_918_176_385 * 1_000_000)
    assert SystemIds(hands.clock(), SystemChance()).new().startswith("01ARYZ6S41")


def test_an_id_encodes_its_chance_in_the_last_sixteen_characters() -> None:
    ids = SystemIds(Hands().clock(), FixedChance(lambda count: (1 << count) - 1))
    assert ids.new()[10:] == "Z" * 16


@given(st.lists(st.integers(min_value=-5_000_000, max_value=5_000_000), max_size=50))
def test_ids_only_grow_even_if_the_clock_stands_still_or_goes_back(moves: list[int]) -> None:
    hands = Hands()
    ids = SystemIds(hands.clock(), SystemChance())
    made = [ids.new()]
    for move in moves:
        hands.monotonic_ns += move
        made.append(ids.new())
    assert all(first < second for first, second in pairwise(made))


def test_ids_grow_across_the_end_of_the_random_part() -> None:
    ids = SystemIds(Hands().clock(), FixedChance(lambda count: (1 << count) - 1))
    made = [ids.new() for _ in range(1_000)]
    assert made == sorted(set(made))


def test_many_ids_at_once_grow_like_those_made_one_by_one() -> None:
    ids = SystemIds(Hands().clock(), SystemChance())
    made = [ids.new(), *ids.many(3_000), *ids.many(1), ids.new()]
    assert made == sorted(set(made))
    assert len(made) == 3_003
    assert {len(name) for name in made} == {ID_LENGTH}
    assert ids.many(0) == []


def test_a_time_that_does_not_fit_into_an_id_is_refused() -> None:
    with pytest.raises(OverflowError, match="48 bits"):
        SystemIds(Hands(wall_ns=-5 * HOUR_NS).clock(), SystemChance()).new()


def test_two_processes_forked_from_one_parent_make_different_ids() -> None:
    script = """
import os
from headgate.system import SystemChance, SystemClock, SystemIds
ids = SystemIds(SystemClock(lambda: 10**18, lambda: 0), SystemChance())
ids.new()
child = os.fork()
made = [ids.new() for _ in range(100)]
if child:
    os.waitpid(child, 0)  # one after the other: both write into the same pipe
print(*made, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    made = done.stdout.split()
    assert len(set(made)) == len(made) == 200
