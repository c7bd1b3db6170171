"""What applications say of their own requests: latency p95, how many are in flight, how many fail.

The window slides with the reader: every reading closes a slice, and a reading covers the last `SLICES` of them. So
taking in a request needs no clock, and memory is the same for ten requests and for ten million.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headgate.core.errors import InvalidInput

SLICES = 12
"""With a poll of 5 s the window is a minute."""
_GROWTH = math.log(1.1)
_SHORTEST = 1e-5
_BINS = 242
"""From ten microseconds to about a day, each bin a tenth longer than the one before."""


class _Slice:
    __slots__ = ("bins", "count", "errors")

    def __init__(self) -> None:
        self.bins = array("Q", bytes(8 * _BINS))
        self.count = 0
        self.errors = 0


class ApiRecorder:
    """Counts requests; safe from any thread. It is a probe as well."""

    name = "api"
    signals = ("api_latency", "api_inflight", "api_errors")

    def __init__(self, slices: int = SLICES) -> None:
        if slices < 1:
            raise InvalidInput("must be at least 1", field="slices")
        self._lock = threading.Lock()
        self._slices: deque[_Slice] = deque([_Slice()], maxlen=slices)
        self._in_flight = 0
        self._peak = 0

    def observe(self, latency_s: float | None = None, error: bool = False) -> None:
        """A request has ended: how long it took in seconds, if known, and whether it failed."""
        if latency_s is not None and not 0 <= latency_s < math.inf:
            raise InvalidInput("must be a number of seconds that is not negative", field="latency_s")
        with self._lock:
            now = self._slices[-1]
            if latency_s is not None:
                now.bins[_bin(latency_s)] += 1
            now.count += 1
            now.errors += bool(error)

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """A request is under way while this is open."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """A request has begun."""
        with self._lock:
            self._in_flight += 1
            self._peak = max(self._peak, self._in_flight)

    def end(self) -> None:
        """A request that began is over."""
        with self._lock:
            self._in_flight = max(0, self._in_flight - 1)

    def read(self) -> Mapping[str, float]:
        """p95 and error rate over the window, the most in flight since the last reading. Silence is no load."""
        with self._lock:
            slices = list(self._slices)
            peak, self._peak = self._peak, self._in_flight
            self._slices.append(_Slice())
        count = sum(part.count for part in slices)
        errors = sum(part.errors for part in slices)
        latency = _quantile([part.bins for part in slices], 0.95)
        return {"api_latency": latency, "api_inflight": float(peak), "api_errors": errors / count if count else 0.0}


def _bin(seconds: float) -> int:
    if seconds <= _SHORTEST:
        return 0
    return min(_BINS - 1, math.ceil(math.log(seconds / _SHORTEST) / _GROWTH))


def _quantile(slices: list[array[int]], share: float) -> float:
    """The upper edge of the bin: a latency is never said to be better than it was."""
    wanted = share * sum(sum(bins) for bins in slices)
    if not wanted:
        return 0.0
    passed = 0
    for place in range(_BINS):
        passed += sum(bins[place] for bins in slices)
        if passed >= wanted:
            return _SHORTEST * math.exp(place * _GROWTH)
    return _SHORTEST * math.exp(_BINS * _GROWTH)


RECORDER = ApiRecorder()
"""The recorder of this process, for `observe` and the middleware."""


def observe(latency_s: float | None = None, error: bool = False) -> None:
    """Tell the recorder of this process that a request has ended."""
    RECORDER.observe(latency_s, error)
