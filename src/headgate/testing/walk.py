"""A random walk over the core: commands drawn from a seed, sensible and senseless ones mixed.

The same seed gives the same commands, so it must give the same events, byte for byte, in any process:

    python -m headgate.testing.walk SEED COMMANDS

prints the fingerprint of the events and of the state that a walk ends in.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

from headgate.core import commands as c
from headgate.core.actions import Action, Dispatch, Evict, Preempt, StartWorker, Wait
from headgate.core.cluster import PoolReport, WorkerSpec
from headgate.core.decide import decide
from headgate.core.errors import HeadgateError
from headgate.core.events import Event, Failure, encode
from headgate.core.job import PRIORITIES, JobSpec
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.testing.build import gpu, job, model, pool, tenant, worker
from headgate.testing.edges import START, SeededIds
from headgate.testing.snapshot import replayable

TENANTS = ("default", "red", "blue")
WORKERS = ("w1", "w2", "w3", "w4")
POOLS = ("default", "left", "right")
SMALL = Settings(
    total_units=40,
    reserve=2,
    poll=5_000,
    stale_polls=4,
    recalculate=1_000,
    fall_half_life=1_000,
    max_queue_depth=60,
    ageing=40_000,
    stagger=50,
    retain_finished=25,
    preemption_grace=3_000,
    lease_ttl=9_000,
    worker_silence=30_000,
    max_dependency_depth=6,
)
"""Everything switched on, and small enough that every limit is met."""


class RandomWalk:
    """Draws the next command from what the state holds."""

    def __init__(self, seed: int, settings: Settings = SMALL) -> None:
        self.chance = random.Random(seed)
        self.state = State(settings)
        self.now = START
        self._ids = SeededIds(seed)
        self._policy = FirstFit()
        self._old_leases: list[tuple[str, int]] = []
        self._moves: list[Callable[[], c.Command[Any] | None]] = [
            *[self._submit] * 6,
            *[self._plan] * 14,
            self._nonsense,
            *[self._lease_word] * 16,
            *[self._cancel] * 3,
            self._patch,
            *[self._sample] * 4,
            *[self._cluster] * 4,
            *[c.Tick] * 5,
        ]

    def next(self) -> tuple[c.Command[Any], int]:
        """The next command and its time; the clock mostly creeps, sometimes leaps, and some commands lag."""
        self.now += self.chance.choice((0, 1, 10, 40, 100, 100, 300, 300, 1_000))
        if self.chance.random() < 0.003:
            self.now += self.chance.choice((20_000, 120_000, 7_200_000))
        lag = self.chance.choice((1, 200, 30_000)) if self.chance.random() < 0.03 else 0
        command = None
        while command is None:
            command = self.chance.choice(self._moves)()
        return command, max(0, self.now - lag)

    def go(self, commands: int) -> tuple[list[Event], int]:
        """Walk that far; all events, and how many commands were refused."""
        events: list[Event] = []
        refused = 0
        for _ in range(commands):
            command, now = self.next()
            try:
                events += decide(self.state, command, now, self.chance.random).events
            except HeadgateError:
                refused += 1
        return events, refused

    # -- jobs ---------------------------------------------------------------------------------------------------

    def _submit(self) -> c.Command[Any]:
        count = self.chance.choice((1, 1, 1, 2, 5))
        jobs: list[c.NewJob] = []
        for _ in range(count):
            jobs.append(c.NewJob(self._ids.new(), self._spec([new.id for new in jobs])))
        return c.Submit(tuple(jobs))

    def _spec(self, siblings: list[str]) -> JobSpec:
        draw = self.chance
        fields: dict[str, Any] = {
            "priority": draw.choice(sorted(PRIORITIES)),
            "rank": draw.choice((0, 0, 0, 1, -3)),
            "tenant": draw.choice(TENANTS),
            "units": draw.choice((0, 1, 1, 3, 3, 10, 30)),
            "retry": {"attempts": draw.choice((1, 2, 4)), "initial": "300ms", "jitter": 0.5},
            "checkpointable": draw.random() < 0.3,
            "on_dependency_failure": draw.choice(("fail", "fail", "run")),
        }
        self._sometimes(fields, "resources", 0.3, {"memory": draw.choice(("1GB", "3GB")), "cpu": draw.choice((0.1, 2))})
        self._sometimes(fields, "pool", 0.1, draw.choice(POOLS))
        self._sometimes(fields, "requires", 0.1, {"zone": draw.choice(("a", "b"))})
        self._sometimes(fields, "model_ref", 0.1, draw.choice(("m1", "m2")))
        self._sometimes(fields, "run", 0.1, {"kind": "external"})
        self._sometimes(fields, "timeout", 0.2, 4)
        self._sometimes(fields, "not_before", 0.1, self.now / 1000 + draw.choice((-5, 0.5, 4)))
        self._sometimes(fields, "deadline", 0.2, self.now / 1000 + draw.choice((4, 10, 60)))
        self._sometimes(fields, "idempotency_key", 0.1, f"key-{draw.randrange(5)}")
        known = [*self._some(self.state.jobs, 3), *siblings[-2:]]
        if known and draw.random() < 0.4:
            fields["dependencies"] = draw.sample(known, draw.randint(1, min(3, len(known))))
        return job("walk", **fields)

    def _sometimes(self, fields: dict[str, Any], name: str, how_often: float, value: Any) -> None:
        if self.chance.random() < how_often:
            fields[name] = value

    def _some(self, among: Any, most: int) -> list[str]:
        names = list(among)[-40:]
        return self.chance.sample(names, min(most, len(names)))

    def _one(self, among: Any, otherwise: str = "nobody") -> str:
        found = self._some(among, 1)
        return found[0] if found else otherwise

    def _cancel(self) -> c.Command[Any]:
        return c.Cancel(self._one(self.state.jobs))

    def _patch(self) -> c.Command[Any]:
        draw = self.chance
        return c.Patch(
            self._one(self.state.jobs),
            priority=draw.choice((None, *sorted(PRIORITIES))),
            rank=draw.choice((None, 0, 5)),
            not_before=draw.choice((None, self.now, self.now + 3_000)),
        )

    # -- plans --------------------------------------------------------------------------------------------------

    def _plan(self) -> c.Command[Any] | None:
        actions = self._policy.propose(self.state, self.now)
        return c.Schedule(tuple(actions)) if actions else None

    def _nonsense(self) -> c.Command[Any]:
        return c.Schedule(tuple(self._action() for _ in range(self.chance.randint(0, 6))))

    def _action(self) -> Action:
        draw, state = self.chance, self.state
        some_job, some_worker = self._one(state.jobs), self._one(state.workers)
        made: list[Action] = [
            Dispatch(some_job, draw.choice((None, some_worker))),
            Dispatch(some_job, some_worker),
            Wait("no reason", draw.choice((None, 1_000))),
            Evict(some_worker),
            StartWorker(draw.choice(("m1", "m2")), draw.choice(POOLS), draw.choice((None, "gpu0"))),
            Preempt(some_job, tuple(self._some(state.jobs, draw.randint(0, 3)))),
        ]
        return draw.choice(made)

    # -- what holders say ---------------------------------------------------------------------------------------

    def _lease_word(self) -> c.Command[Any] | None:
        draw, state = self.chance, self.state
        if self._old_leases and draw.random() < 0.08:
            lease_id, token = draw.choice(self._old_leases[-20:])
        elif state.leases:
            lease = state.leases[self._one(state.leases)]
            lease_id, token = lease.id, lease.token
            self._old_leases.append((lease_id, token))
        else:
            return None
        if draw.random() < 0.03:
            token += draw.choice((-1, 1, 1 << 40))
        words: list[c.Command[Any]] = [
            *[c.Start(lease_id, token)] * 4,
            *[c.Complete(lease_id, token, draw.choice((b"1", b"2")))] * 4,
            c.Fail(lease_id, token, Failure(draw.choice(("oom", "bug"))), draw.random() < 0.8),
            c.Release(lease_id, token),
            c.Heartbeat(lease_id, token),
            c.Heartbeats(tuple((lease.id, lease.token) for lease in state.leases.values())),
            c.Progress(lease_id, token, draw.choice((None, 0.5))),
        ]
        return draw.choice(words)

    # -- the cluster and its load -------------------------------------------------------------------------------

    def _sample(self) -> c.Command[Any]:
        draw = self.chance
        odd = draw.choice((float("nan"), float("inf"), -1.0, 1e300, None))
        cpu: Any = odd if draw.random() < 0.02 else draw.choice((0.1, 0.3, 0.3, 0.4, 0.4, 0.6))
        if draw.random() < 0.02:
            return c.WithdrawLoad(draw.choice(("host", "api")))
        if draw.random() < 0.02:
            return c.SampleLoad("api", {"api_latency": draw.choice((0.1, 0.2, 3.0))})
        return c.SampleLoad("host", {"cpu": cpu})

    def _cluster(self) -> c.Command[Any]:
        draw = self.chance
        name = draw.choice(WORKERS)
        some: list[c.Command[Any]] = [
            *[c.RegisterWorker(self._worker(name))] * 12,
            *[c.WorkerBeat(name)] * 4,
            c.Claim(name, draw.choice((0, 1, 3))),
            c.DrainWorker(name),
            c.UndrainWorker(name),
            c.EvictWorker(name),
            c.FailWorker(name),
            c.RemoveWorker(name, draw.random() < 0.3),
            *[c.ReportPool(self._pool())] * 6,
            *[c.RemovePool(draw.choice((*POOLS, "empty")))] * 2,
            c.ReportPool(PoolReport("empty")),
            *[c.SetTenant(self._tenant())] * 2,
            c.RemoveTenant(draw.choice(TENANTS)),
            c.SetModel(model("m1", draw.choice(("1GB", "30GB")), aliases=["m2"])),
            c.RemoveModel("m1"),
            c.PutDocument("policy", draw.choice(("a", "b")), draw.choice((None, b"x", b"y"))),
            c.Resume(),
        ]
        return draw.choice(some)

    def _worker(self, name: str) -> WorkerSpec:
        draw = self.chance
        return worker(
            name,
            slots=draw.choice((1, 2, 4)),
            prefetch=draw.choice((0, 0, 2)),
            pool=draw.choice(POOLS),
            labels={"zone": draw.choice(("a", "b"))},
            model=draw.choice((None, None, None, None, None, "m1")),
            types=draw.choice((None, None, None, ("generic",), ("other",))),
            pull=draw.random() < 0.2,
            memory=draw.choice(("2GB", "8GB")),
            cpu=draw.choice((0.3, 4)),
        )

    def _pool(self) -> Any:
        draw = self.chance
        return pool(
            draw.choice(POOLS),
            busy=draw.choice((None, None, None, None, 0.0, 2.0, 10.0, float("nan"))),
            units=draw.choice((None, None, 20)),
            gpus=[gpu("gpu0", "24GB", draw.choice(("0", "20GB")))],
            workers=WORKERS,
            memory=draw.choice((0, "6GB")),
        )

    def _tenant(self) -> Any:
        draw = self.chance
        return tenant(
            draw.choice(TENANTS),
            weight=draw.choice((0.5, 1.0, 3.0)),
            units=draw.choice((None, None, 0, 15)),
            leases=draw.choice((None, None, 2)),
            queued=draw.choice((None, 20)),
            memory=draw.choice((0, "2GB")),
        )


def fingerprint(seed: int, commands: int) -> str:
    """What a walk came to, in a line."""
    walk = RandomWalk(seed)
    events, refused = walk.go(commands)
    parts = (hashlib.sha256(encode(events)).hexdigest(), hashlib.sha256(replayable(walk.state)).hexdigest())
    return f"{len(events)} events, {refused} refused: {' '.join(parts)}"


if __name__ == "__main__":
    sys.stdout.write(fingerprint(int(sys.argv[1]), int(sys.argv[2])) + "\n")
