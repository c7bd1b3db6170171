"""Somebody who talks to the engine over the network, may freeze and die, and repeats what was not answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.core import commands as c
from headgate.engine.errors import EngineStopped
from headgate.ports import StoreError
from headgate.testing.simulation.network import Network
from headgate.testing.simulation.server import Server
from headgate.testing.simulation.world import World

Then = Callable[[Any, Exception | None, int], None]
"""Called with the answer or the error, and when the question that it answers was sent."""
UNKNOWN = (EngineStopped, StoreError)
"""Errors that leave open whether the command was carried out."""


class Actor:
    """A process apart from the engine's."""

    def __init__(self, name: str, world: World, network: Network, server: Server) -> None:
        self.name = name
        self.world = world
        self.network = network
        self.server = server
        self.lives = 0
        self.frozen_until = 0
        self.waiting = 0
        """Calls that have had no answer yet."""

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Do something in this life, when awake."""
        life = self.lives

        def act() -> None:
            if self.lives != life:
                return
            if self.world.now < self.frozen_until:
                self.world.after(self.frozen_until - self.world.now, act)
                return
            action()

        self.world.after(delay, act)

    def call(self, command: c.Command[Any], then: Then, *, once: bool = False) -> None:
        """Ask the engine for something until it answers; `once` gives up after the first try."""
        _Call(self, command, then, once=once).send()

    def poll(self, worker_id: str | None, then: Callable[[list[Any]], None]) -> None:
        """Ask which leases there are."""

        def answered(reply: Any, _: Exception | None) -> None:
            self.network.carry(lambda: self.later(0, lambda: then(reply)))

        life = self.lives
        self.network.carry(lambda: self.server.receive_poll(worker_id, answered) if self.lives == life else None)


class _Call:
    """One command, sent as often as it takes. The first answer that decides anything counts."""

    def __init__(self, actor: Actor, command: c.Command[Any], then: Then, *, once: bool) -> None:
        self._actor = actor
        self._command = command
        self._then = then
        self._once = once
        self._life = actor.lives
        self._tries = 0
        self._settled = False
        if not once:
            actor.waiting += 1

    def send(self) -> None:
        actor = self._actor
        if self._settled or actor.lives != self._life:
            return
        self._tries += 1
        sent_at = actor.world.now

        def replied(reply: Any, error: Exception | None) -> None:
            actor.network.carry(lambda: self._arrived(reply, error, sent_at))

        actor.network.carry(lambda: actor.server.receive(self._command, replied))
        if not self._once:
            actor.later(actor.world.chance.randint(500, 2_000) * min(self._tries, 5), self.send)

    def _arrived(self, reply: Any, error: Exception | None, sent_at: int) -> None:
        actor = self._actor
        if self._settled or actor.lives != self._life or isinstance(error, UNKNOWN):
            return
        if actor.world.now < actor.frozen_until:
            actor.later(0, lambda: self._arrived(reply, error, sent_at))
            return
        self._settled = True
        if not self._once:
            actor.waiting -= 1
        self._then(reply, error, sent_at)
