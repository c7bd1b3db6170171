"""The network between the engine and everybody else: it loses, delays, doubles and reorders, in both directions."""

from __future__ import annotations

from collections.abc import Callable

from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.world import World


class Network:
    """Carries messages, or does not."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world = world
        self._faults = faults

    def carry(self, arrive: Callable[[], None]) -> None:
        """Have a message arrive later: never, once or twice."""
        if self._world.strikes("message lost", self._faults.lost):
            return
        self._world.after(self._delay(), arrive)
        if self._world.strikes("message doubled", self._faults.doubled):
            self._world.after(self._delay(), arrive)

    def _delay(self) -> int:
        chance = self._world.chance
        if self._world.strikes("message late", self._faults.late):
            return int(chance.expovariate(1 / 6_000)) + 500
        return chance.randint(1, 30)
