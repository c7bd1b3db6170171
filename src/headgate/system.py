"""The only place that asks the operating system for time, identity and chance.

Everything else takes them as arguments, so that the same inputs give the same decisions. A test or a
simulation puts its own in the place of these. No scheduling rule may enter here.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable
from functools import lru_cache

NANOSECONDS_PER_MILLISECOND = 1_000_000
_YOUNG = 20_000
"""Objects made, and not yet gone, before the collector looks at them."""


class SystemClock:
    """Milliseconds since 1970 that never go back and never jump.

    The wall is read once, at the start; from then on the monotonic clock adds its progress. A wall clock that
    is set two hours ahead or back so expires nothing early and keeps nothing alive. The monotonic clock
    stands still while the machine is suspended: no lease runs out behind the back of a worker that slept too.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def now(self) -> int:
        return (self._offset_ns + self._monotonic_ns()) // NANOSECONDS_PER_MILLISECOND


def stopwatch() -> float:
    """Seconds since some moment, for measuring how long something takes."""
    return time.perf_counter()


def spare_the_collector() -> None:
    """For a process that serves: what it has loaded stays, and what a request makes goes by counting references.

    To look through all of it again after every few hundred objects took a sixth of the time of a bulk submission.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 20)


class SystemChance:
    """Chance seeded by the operating system, for jitter and ids; nothing that must repeat may use it.

    Asking the system for every number would cost more than a commit's share; a fork seeds anew, so that parent and
    child do not draw the same numbers.
    """

    def __init__(self) -> None:
        self._source = random.Random(os.urandom(32))
        os.register_at_fork(after_in_child=lambda: self._source.seed(os.urandom(32)))

    def uniform(self) -> float:
        """Draw from [0, 1)."""
        return self._source.random()

    def bits(self, count: int) -> int:
        """Draw an integer of that many random bits."""
        return self._source.getrandbits(count)


CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ID_LENGTH = 26
_RANDOM_BITS = 80
_TIME_BITS = 48
_STEP_BITS = 32
# Two characters for each value of ten bits: thirteen look-ups instead of twenty-six.
_PAIRS = tuple(first + second for first in CROCKFORD for second in CROCKFORD)
_LATER_BITS = 40
_LATER_MASK = (1 << _LATER_BITS) - 1
_FIRST = tuple(range(120 - _LATER_BITS, -1, -10))


class SystemIds:
    """ULIDs: 26 characters, 48 bits of milliseconds, then 80 of chance; each sorts after the one before.

    Where the clock has not moved on, the last id is raised by a random step rather than by one, so that two
    processes that were forked from the same parent do not walk through the same numbers.
    """

    def __init__(self, clock: SystemClock, chance: SystemChance) -> None:
        self._clock = clock
        self._chance = chance
        self._last = 0
        self._lock = threading.Lock()

    def new(self) -> str:
        with self._lock:
            self._last = value = self._after(self._last)
        return _encode(value)

    def many(self, count: int) -> list[str]:
        """So many names, in order; the clock is asked once for all of them."""
        values: list[int] = []
        with self._lock:
            value = self._last
            for _ in range(count):
                value = value + 1 + self._chance.bits(_STEP_BITS) if values else self._after(value)
                values.append(value)
            self._last = value
        return [_encode(value) for value in values]

    def _after(self, last: int) -> int:
        now = self._time()
        if now > last >> _RANDOM_BITS:
            return (now << _RANDOM_BITS) | self._chance.bits(_RANDOM_BITS)
        return last + 1 + self._chance.bits(_STEP_BITS)

    def _time(self) -> int:
        now = self._clock.now()
        if not 0 <= now < 1 << _TIME_BITS:
            raise OverflowError(f"the clock says {now} ms, which does not fit into the {_TIME_BITS} bits of an id")
        return now


def _encode(value: int) -> str:
    first, later = _first_characters(value >> _LATER_BITS), value & _LATER_MASK
    return first + _PAIRS[later >> 30] + _PAIRS[later >> 20 & 1023] + _PAIRS[later >> 10 & 1023] + _PAIRS[later & 1023]


@lru_cache(maxsize=4)
def _first_characters(value: int) -> str:
    """The part of an id that those made in the same millisecond share, nearly always."""
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in _FIRST])
