"""A holder of leases: it renews, starts, works, and says how it went. It never works on a lease that may be over.

A lease is held until a full TTL after the last renewal was *sent*: the engine counts from when it arrived, so the
holder is always the first to think that it is over.
"""

from __future__ import annotations

from typing import Any

from headgate.core import commands as c
from headgate.core.errors import WorkerBusy
from headgate.core.events import Failure
from headgate.testing.simulation.actor import Actor
from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.history import Belief, History
from headgate.testing.simulation.network import Network
from headgate.testing.simulation.server import Server
from headgate.testing.simulation.world import World

POISON = "poison"
"""The name of jobs that kill whoever works on them."""
_WAYS = ("complete",) * 14 + ("fail",) * 3 + ("release", "progress", "freeze", "hang", "die")


class Holder(Actor):
    """What workers and submitters of external jobs have in common."""

    def __init__(
        self, name: str, world: World, network: Network, server: Server, history: History, faults: Faults
    ) -> None:
        super().__init__(name, world, network, server)
        self.history = history
        self.faults = faults
        self.ttl = server.settings.lease_ttl
        self.held: dict[str, Belief] = {}
        self._dropped: set[str] = set()

    # -- taking a lease -----------------------------------------------------------------------------------------

    def offered(self, lease_id: str, token: int, job_id: str) -> None:
        """A lease arrives: find out whether it is still good, then start."""
        if lease_id in self.held or lease_id in self._dropped:
            return
        belief = self.held[lease_id] = Belief(lease_id, token, job_id, f"{self.name}/{self.lives}")

        def renewed(_: Any, error: Exception | None, sent_at: int) -> None:
            if error is not None:
                self.drop(belief)
                return
            belief.until = max(belief.until, sent_at + self.ttl)
            self._start(belief)

        self.call(c.Heartbeat(lease_id, token), renewed)

    def _start(self, belief: Belief) -> None:
        def started(_: None, error: Exception | None, __: int) -> None:
            if belief.lease_id not in self.held:
                return
            if isinstance(error, WorkerBusy):
                self.later(500, lambda: self._start(belief))
            elif error is not None or self.world.now >= belief.until:
                self.drop(belief)
            else:
                self.history.begins(belief)
                self._work(belief)

        if belief.lease_id in self.held:
            self.call(c.Start(belief.lease_id, belief.token), started)

    def drop(self, belief: Belief) -> None:
        """Have nothing more to do with a lease."""
        belief.working = False
        self.held.pop(belief.lease_id, None)
        self._dropped.add(belief.lease_id)

    # -- working ------------------------------------------------------------------------------------------------

    def _work(self, belief: Belief) -> None:
        chance = self.world.chance
        way = chance.choice(_WAYS[:17] if self.world.calm else _WAYS)
        if POISON in belief.job_id:
            way = "die"
        self.later(chance.choice((5, 200, 1_000, 1_000, 4_000, 12_000)), lambda: self._act(belief, way))

    def _act(self, belief: Belief, way: str) -> None:
        if belief.lease_id not in self.held:
            return
        if not self.world.calm and self.world.odds(0.2):
            guess = c.Complete(belief.lease_id, belief.token + 1, b'"a guess"')
            self.call(guess, lambda *_: None, once=True)
        if self.world.now >= belief.until and self.world.odds(0.5):  # stops in time; the others are late on purpose
            self.drop(belief)
            return
        match way:
            case "freeze":
                self.freeze()
                self.later(0, lambda: self._settle(belief, "complete"))
            case "hang":
                self.later(30_000, lambda: self._settle(belief, "complete"))
            case "die":
                self.die()
            case "progress":
                self.call(c.Progress(belief.lease_id, belief.token, 0.5), lambda *_: self._work(belief), once=False)
            case _:
                self._settle(belief, way)

    def _settle(self, belief: Belief, way: str) -> None:
        if belief.lease_id not in self.held:
            return
        belief.working = False
        lease_id, token = belief.lease_id, belief.token
        command: c.Command[Any] = c.Complete(lease_id, token, f'"{lease_id}"'.encode())
        if way == "fail":
            command = c.Fail(lease_id, token, Failure("bug", lease_id), self.world.odds(0.8))
        elif way == "release":
            command = c.Release(lease_id, token)

        def settled(*_: Any) -> None:
            self.drop(belief)
            self._misbehave(belief, command)

        self.call(command, settled)

    def _misbehave(self, belief: Belief, said: c.Command[Any]) -> None:
        """Repeat oneself, contradict oneself, or guess a token."""
        if self.world.calm or self.world.odds(0.8):
            return
        lease_id, token = belief.lease_id, belief.token
        words: list[c.Command[Any]] = [
            said,
            c.Complete(lease_id, token, b'"something else"'),
            c.Complete(lease_id, token + 1, f'"{lease_id}"'.encode()),
            c.Fail(lease_id, token, Failure("contradiction", lease_id)),
        ]
        self.call(self.world.chance.choice(words), lambda *_: None, once=True)

    def _speak_late(self, belief: Belief) -> None:
        """The work was stopped, but its last word was out already."""
        word = c.Complete(belief.lease_id, belief.token, f'"{belief.lease_id}"'.encode())
        for delay in () if self.world.calm else (0, 400, 2_000, self.ttl):
            if self.world.odds(0.5):
                self.later(delay, lambda: self.call(word, lambda *_: None, once=True))

    # -- staying alive ------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Renew what is held, and stop what is over."""
        beats = []
        for belief in list(self.held.values()):
            if 0 < belief.until <= self.world.now and belief.working:
                self.drop(belief)
                self._speak_late(belief)
            else:
                beats.append((belief.lease_id, belief.token))
        if beats:
            self.call(c.Heartbeats(tuple(beats)), self._renewed, once=True)
        if self.world.strikes("worker died", self.faults.worker_dies):
            self.die()
        elif self.world.strikes("worker froze", self.faults.worker_freezes):
            self.freeze()

    def _renewed(self, beats: Any, error: Exception | None, sent_at: int) -> None:
        if error is not None:
            return
        for beat in beats:
            belief = self.held.get(beat.lease_id)
            if belief is None:
                continue
            if beat.stale or 0 < belief.until <= self.world.now:
                self.drop(belief)
                self._speak_late(belief)
                continue
            if belief.until:
                belief.until = max(belief.until, sent_at + self.ttl)
            if beat.let_go_by is not None and self.world.odds(0.6):
                self._settle(belief, "release")

    def freeze(self) -> None:
        """Do nothing for a while, often longer than a lease lives."""
        self.frozen_until = self.world.now + self.world.chance.choice((1_000, self.ttl, 2 * self.ttl, 4 * self.ttl))
        self.world.note(f"{self.name}: freezes for {self.frozen_until - self.world.now}")

    def die(self) -> None:
        """Lose everything."""
        self.world.note(f"{self.name}: dies with {len(self.held)} leases")
        for belief in self.held.values():
            belief.working = False
        self.held.clear()
        self._dropped.clear()
        self.lives += 1
        self.waiting = 0
        self.frozen_until = 0
