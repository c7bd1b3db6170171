"""Who looks after the cluster: samples of load, reports of pools, quotas, and interference of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.core import commands as c
from headgate.testing.build import model, pool, tenant
from headgate.testing.simulation.actor import Actor
from headgate.testing.simulation.client import TENANTS
from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.worker import POOLS

_POLL = 2_000


class Operator(Actor):
    """Probes, pool agents and an administrator with a heavy hand."""

    def begin(self, faults: Faults, workers: Sequence[str]) -> None:
        """Start to look after things."""
        self._faults = faults
        self._workers = workers
        self._silent_until = 0
        self._sample()
        self._report()
        self._meddle()

    def _tell(self, command: c.Command[Any], *, once: bool = True) -> None:
        self.call(command, lambda *_: None, once=once)

    def _sample(self) -> None:
        chance = self.world.chance
        if self.world.odds(self._faults.meddling * 0.05):
            self._silent_until = self.world.now + chance.choice((5_000, 30_000))
        if self.world.now >= self._silent_until or self.world.calm:
            spike = self.world.odds(self._faults.meddling * 0.1)
            odd = chance.choice((1.0, 5.0, float("nan"), -1.0, None))
            self._tell(c.SampleLoad("host", {"cpu": odd if spike else chance.choice((0.1, 0.3, 0.4))}))
        self.later(_POLL, self._sample)

    def _report(self) -> None:
        chance = self.world.chance
        for name in POOLS:
            odd = self.world.odds(self._faults.meddling * 0.2)
            busy = chance.choice((0.0, 2.0, 10.0, float("nan"))) if odd else None
            units = chance.choice((0, 10, 30)) if odd else None
            self._tell(c.ReportPool(pool(name, busy=busy, units=units, workers=self._workers)))
        if self.world.calm:  # again and again: an old word may still be on its way
            self.make_peace()
        self.later(2 * _POLL, self._report)

    def _meddle(self) -> None:
        if self.world.calm:
            return
        if self.world.odds(self._faults.meddling * 0.5):
            self._tell(self._deed(), once=False)
        self.later(1_500, self._meddle)

    def _deed(self) -> c.Command[Any]:
        chance = self.world.chance
        who = chance.choice(self._workers)
        deeds: list[c.Command[Any]] = [
            c.DrainWorker(who),
            c.FailWorker(who),
            c.RemoveWorker(who, force=chance.random() < 0.5),
            c.RemoveTenant(chance.choice(TENANTS)),
            c.RemovePool(chance.choice(POOLS)),
            *[c.SetTenant(self._quota())] * 4,
            c.SetModel(model("m1", chance.choice(("1GB", "30GB")))),
            c.RemoveModel("m1"),
            c.PutDocument("note", chance.choice(("a", "b")), chance.choice((None, b"1", b"2"))),
        ]
        return chance.choice(deeds)

    def _quota(self) -> Any:
        chance = self.world.chance
        return tenant(
            chance.choice(TENANTS),
            weight=1 + chance.random(),
            units=chance.choice((None, 0, 15)),
            leases=chance.choice((None, 2)),
            queued=chance.choice((None, 20)),
        )

    def make_peace(self) -> None:
        """Lift every quota; let the machine be idle."""
        for name in TENANTS:
            self._tell(c.SetTenant(tenant(name)))
