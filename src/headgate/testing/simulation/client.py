"""Simulated clients: they submit with ids and keys, repeat themselves, cancel, change, and hold external leases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.core import commands as c
from headgate.core.errors import DuplicateJob
from headgate.core.job import PRIORITIES, JobSpec
from headgate.testing.build import job
from headgate.testing.simulation.holder import POISON, Holder
from headgate.testing.simulation.worker import POOLS

TENANTS = ("default", "red", "blue")


class Client(Holder):
    """A submitter."""

    numbers: Iterator[int]
    """Shared by all clients, so that ids sort by the time they were made."""

    def live(self) -> None:
        """Submit now and then; hold what it was granted itself."""
        self.known: list[str] = []
        self._beat_loop()
        self._submit_loop()

    def _beat_loop(self) -> None:
        self.beat()
        if self.world.odds(0.3):
            self.poll(None, self._leases)
        self.later(self.ttl // 3, self._beat_loop)

    def _leases(self, leases: list[Any]) -> None:
        for lease in leases:
            if lease.worker_id is None and self.owns(lease.job_id):
                self.offered(lease.id, lease.token, lease.job_id)

    def owns(self, job_id: str) -> bool:
        """Whether it made this id."""
        return job_id.endswith(f"-{self.name}")

    def _submit_loop(self) -> None:
        if self.world.calm:
            return
        roll = self.world.chance.random()
        if roll < 0.65 or not self.known:
            self._submit()
        elif roll < 0.8:
            self.call(c.Cancel(self.world.chance.choice(self.known[-20:]), "changed my mind"), lambda *_: None)
        else:
            self._patch()
        self.later(self.world.chance.choice((50, 500, 2_000, 6_000)), self._submit_loop)

    # -- submitting ---------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        count = self.world.chance.choice((1, 1, 1, 2, 4))
        jobs: list[c.NewJob] = []
        for _ in range(count):
            jobs.append(c.NewJob(self._new_id(), self._spec([new.id for new in jobs])))
        command = c.Submit(tuple(jobs))
        self.call(command, self._submitted)
        if count == 1 and jobs[0].spec.idempotency_key is not None and self.world.odds(0.5):
            again = c.Submit((c.NewJob(self._new_id(), jobs[0].spec),))
            self.later(self.world.chance.choice((1, 3_000)), lambda: self.call(again, self._submitted))

    def _submitted(self, reply: Any, error: Exception | None, _: int) -> None:
        if error is None:
            self.known += [job_id for job_id in reply.ids if job_id not in self.known]
        elif isinstance(error, DuplicateJob):
            self.known.append(error.job_id)

    def _new_id(self) -> str:
        poison = f"{POISON}-" if self.world.odds(0.02) else ""
        return f"{next(self.numbers):05d}-{poison}{self.name}"

    def _spec(self, siblings: list[str]) -> JobSpec:
        draw, now = self.world.chance, self.world.now / 1000
        place = draw.choice(POOLS)
        fields: dict[str, Any] = {
            "priority": draw.choice(sorted(PRIORITIES)),
            "rank": draw.choice((0, 0, 0, 1, -3)),
            "tenant": draw.choice(TENANTS),
            "units": draw.choice((0, 1, 1, 3, 3, 10, 25)),
            "retry": {"attempts": draw.choice((1, 2, 4, 4)), "initial": draw.choice((0, 0, "300ms", 5)), "jitter": 0.5},
            "on_dependency_failure": draw.choice(("fail", "fail", "run")),
        }
        optional: tuple[tuple[str, float, Any], ...] = (
            ("resources", 0.3, {"memory": draw.choice(("1GB", "3GB"))}),
            ("pool", 0.1, place),
            ("requires", 0.1, {"zone": place}),
            ("run", 0.12, {"kind": "external"}),
            ("timeout", 0.2, draw.choice((1, 6))),
            ("not_before", 0.1, now + draw.choice((-5, 0.5, 8))),
            ("deadline", 0.15, now + draw.choice((10, 20, 60))),
            ("idempotency_key", 0.35, f"key-{draw.randrange(20)}"),
        )
        fields |= {name: value for name, share, value in optional if draw.random() < share}
        known = [*self.known[-6:], *siblings[-2:]]
        if known and draw.random() < 0.35:
            fields["dependencies"] = draw.sample(known, draw.randint(1, min(3, len(known))))
        return job("simulated", **fields)

    def _patch(self) -> None:
        draw = self.world.chance
        mark = (("patch", str(next(self.numbers))),)
        priority = draw.choice((None, *sorted(PRIORITIES)))
        command = c.Patch(draw.choice(self.known[-20:]), priority=priority, labels=mark)
        self.call(command, lambda *_: None)

    def die(self) -> None:
        """Forget everything but the way to submit."""
        super().die()
        life = self.lives
        self.world.after(2_000, lambda: self.live() if self.lives == life else None)
