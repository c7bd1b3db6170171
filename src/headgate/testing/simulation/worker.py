"""Simulated workers: they register, beat, ask for their leases, move between pools, freeze, die and come back."""

from __future__ import annotations

from typing import Any

from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.errors import WorkerNotFound
from headgate.testing.build import worker
from headgate.testing.simulation.holder import Holder

POOLS = ("left", "right")


class Worker(Holder):
    """A worker of a pool. Its base offer is what every job fits into."""

    def arrange(self, number: int) -> None:
        """Decide what kind of worker this is."""
        chance = self.world.chance
        self._slots = chance.choice((1, 2, 4))
        self._prefetch = chance.choice((0, 0, 2))
        self._pull = chance.random() < 0.3
        self._pool = POOLS[number % 2]

    def _spec(self) -> WorkerSpec:
        odd = not self.world.calm and self.world.odds(0.25)
        return worker(
            self.name,
            slots=self._slots,
            prefetch=self._prefetch,
            pool=self.world.chance.choice(POOLS) if odd else self._pool,
            pull=self._pull,
            labels={"zone": self._pool},
            memory="4GB" if odd else "8GB",
        )

    def live(self) -> None:
        """Begin a life."""
        self.register()
        self._loop()

    def register(self) -> None:
        """Say what it is."""
        self.call(c.RegisterWorker(self._spec()), lambda *_: None)

    def _loop(self) -> None:
        life = self.lives
        self.beat()
        if self.lives != life:
            return
        if not self.held or self.world.odds(0.3):
            self.call(c.WorkerBeat(self.name), self._seen, once=True)
        if self._pull:
            self.call(c.Claim(self.name, self._slots), lambda *_: None, once=True)
        if self.world.odds(0.5):
            self.poll(self.name, self._leases)
        if self.world.odds(0.03):
            self.register()
        self.later(self.ttl // 3, self._loop)

    def _seen(self, _: None, error: Exception | None, __: int) -> None:
        if isinstance(error, WorkerNotFound):
            self.register()

    def _leases(self, leases: list[Any]) -> None:
        for lease in leases:
            self.offered(lease.id, lease.token, lease.job_id)

    def die(self) -> None:
        """Come back after a while under the same name."""
        super().die()
        delays = (500,) if self.world.calm else (500, 5_000, 3 * self.ttl)
        life = self.lives
        self.world.after(self.world.chance.choice(delays), lambda: self.live() if self.lives == life else None)
