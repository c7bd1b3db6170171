"""How far a simulation is, told now and then; and its end by the clock on the wall, where it may take only so long."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter  # noqa: TID251  # no decision depends on it: it says when to look, and when to stop

from headgate.core.errors import InvalidInput

Watch = Callable[[float], object]
"""Is told the share of the work that is done, from 0 to 1."""
_EVERY_S = 0.1


class Pulse:
    """Asked before every instant of a world whether to go on."""

    def __init__(self, share: Callable[[], float], watch: Watch | None = None, limit_s: float | None = None) -> None:
        if limit_s is not None and not 0 < limit_s < math.inf:
            raise InvalidInput("must be more than nothing", field="limit")
        self._share, self._watch = share, watch
        now = perf_counter()
        self._tell_at = now if watch is not None else math.inf
        self._end_at = math.inf if limit_s is None else now + limit_s

    def __call__(self) -> bool:
        """Whether there is time left."""
        now = perf_counter()
        if now >= self._tell_at and self._watch is not None:
            self._tell_at = now + _EVERY_S
            self._watch(self._share())
        return now < self._end_at
