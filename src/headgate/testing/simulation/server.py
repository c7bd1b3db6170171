"""The engine's process: the real writer and rounds, on a clock of its own, that crashes, freezes and starts again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.errors import HeadgateError
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.core.verify import verify
from headgate.engine.questions import GetLeases, answer
from headgate.engine.rounds import EVERY, Rounds, Ticket
from headgate.engine.writer import Group, Writer
from headgate.ports import Gone, StoreError
from headgate.testing.edges import SeededChance
from headgate.testing.simulation.disk import SimDisk, SimStore
from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.history import History
from headgate.testing.simulation.recovered import same_as_recovered
from headgate.testing.simulation.world import Violation, World

Reply = Callable[[Any, Exception | None], None]
HOUR = 3_600_000
PAUSE = 5_000
_SWEEPS = 0.1
"""Ticks with which somebody asks for everything of age to be deleted now."""
_AUDITS = 0.04


class Crash(BaseException):
    """The process dies here. Not an `Exception`: nothing in the engine may catch it."""


class Server:
    """Takes requests; answers when the effects are durable; delivers leases."""

    def __init__(self, world: World, disk: SimDisk, faults: Faults, history: History, settings: Settings) -> None:
        self.world = world
        self.disk = disk
        self.settings = settings
        self.deliver: Callable[[e.LeaseGranted], None] = lambda _: None
        """Where leases go once they are durable."""
        self.writer: Writer | None = None
        self.lives = 0
        self.offset = self.latest_offset = 0
        """The engine's clock against the true time."""
        disk.clock = self.now
        self._faults = faults
        self._history = history
        self._eager = world.odds(0.5)  # whether commands are carried out while a commit is on its way
        self._check_every = world.chance.choice((1, 2, 5))
        self._frozen_until = 0

    def now(self) -> int:
        """What the engine takes for the time."""
        return self.world.now + self.offset

    # -- life and death -----------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the process on whatever the disk holds."""
        self.lives += 1
        self._jump_clock()
        self._queue: list[Ticket[Any]] = []
        self._round_planned = False
        self._accepting = False
        self._early: list[Callable[[], None]] = []
        self._tick_at = 0
        self._sealing: Group | None = None
        self._acted_at = self.now()
        self._actions = self._refusals = 0
        self._sweeping: Iterator[Gone] | None = None
        self._store = SimStore(self.world, self.disk, self._faults)
        chance = SeededChance(self.world.chance.getrandbits(32))
        writer = Writer(self._store, FirstFit(), chance, self.settings, pause=PAUSE, failpoint=self._failpoint)
        try:
            writer.open(self.now())
        except (StoreError, Crash) as error:
            self.world.note(f"engine {self.lives}: did not start: {type(error).__name__}")
            self.world.after(self.world.chance.randint(100, 5_000), self.boot)
            return
        self.world.note(f"engine {self.lives}: up at epoch {writer.state.epoch}, clock off by {self.offset}")
        self._history.engine_gap(self.now())
        self._feed = writer.feed.subscribe(1_000_000)
        self._feed.on_event = self._publish
        self.writer, self.rounds = writer, Rounds(writer)
        self._recoveries = writer.recoveries
        self._plan_tick(0)

    def _jump_clock(self) -> None:
        if self.world.strikes("clock jumped", self._faults.clock_jumps):
            self.offset = self.world.chance.choice((-3, -2, -1, 0, 1, 2, 3)) * HOUR + self.world.chance.randint(0, 999)
        self.latest_offset = max(self.latest_offset, self.offset)

    def crash(self) -> None:
        """Lose everything but the disk."""
        if self.writer is None:
            return
        self.world.note(f"engine {self.lives}: dies")
        self.writer = None
        self._frozen_until = 0
        ttl = self.settings.lease_ttl
        self.world.after(self.world.chance.choice((10, 10, 500, 2_000, ttl, 3 * ttl)), self.boot)

    def settle_clock(self) -> None:
        """Start once more on the latest clock there was, so that no time of day lies hours ahead."""
        if self.writer is not None and self.offset < self.latest_offset:
            self.writer = None
            self.world.note("engine: the clock is put right")
            self.offset = self.latest_offset
            self.boot()

    def _failpoint(self, name: str) -> None:
        if self.world.strikes(f"died at {name}", self._faults.failpoints.get(name, 0.0)):
            self.world.note(f"engine: reaches {name}")
            raise Crash

    def _soon(self, delay: int, action: Callable[[], None]) -> None:
        """Plan something that this process does; if it is frozen then, it does it when it wakes."""
        life = self.lives

        def act() -> None:
            if self.writer is None or self.lives != life:
                return
            if self.world.now < self._frozen_until:
                self.world.after(self._frozen_until - self.world.now, act)
                return
            self._act(action)

        self.world.after(delay, act)

    def _act(self, action: Callable[[], None]) -> None:
        if self.now() - self._acted_at > PAUSE:
            self._history.engine_gap(self.now())
        try:
            action()
        except Crash:
            self.crash()
            return
        if self.world.strikes("died between steps", self._faults.dies_between):
            self.crash()
            return
        self._acted_at = self.now()
        if self.world.strikes("engine froze", self._faults.freezes):
            self._frozen_until = self.world.now + self.world.chance.choice((300, PAUSE, self.settings.lease_ttl * 2))
            self.world.note(f"engine: freezes for {self._frozen_until - self.world.now}")
        self._check()

    # -- requests -----------------------------------------------------------------------------------------------

    def receive(self, command: c.Command[Any], reply: Reply) -> None:
        """A request arrives. A process that is not there says nothing."""
        if self.writer is None:
            return
        ticket = Ticket(command)
        life = self.lives

        def settled() -> None:
            if self.lives != life:
                return
            if self._accepting:  # the answer is not in the ticket yet
                self._early.append(lambda: self._reply(ticket, reply))
            else:
                self._reply(ticket, reply)

        ticket.on_settled = settled
        self._queue.append(ticket)
        self._plan_round()

    def receive_poll(self, worker_id: str | None, reply: Reply) -> None:
        """A holder asks which leases are its own."""
        if self.writer is None:
            return

        def look() -> None:
            if self.writer is not None and self.writer.stopped is None:
                asked = GetLeases(worker_id)
                reply(answer(asked, self.writer.state, self._store, self.now()), None)

        self._soon(0, look)

    def _reply(self, ticket: Ticket[Any], reply: Reply) -> None:
        error = ticket.error
        if error is not None and not isinstance(error, HeadgateError):
            raise Violation(f"{type(ticket.command).__name__} led to {error!r}") from error
        self._history.answered(ticket.command, ticket.reply, error)
        reply(ticket.reply, error)
        if self.world.strikes("died replying", self._faults.dies_replying):
            raise Crash

    def _plan_round(self) -> None:
        if not self._round_planned:
            self._round_planned = True
            self._soon(self.world.chance.choice((0, 1, 20, 60)), self._round)

    def _round(self) -> None:
        self._round_planned = False
        if self._sealing is not None and not self._eager:
            return
        tickets, self._queue = self._queue, []
        self._accepting = True
        self.rounds.accept(tickets, self.now())
        self._accepting = False
        early, self._early = self._early, []
        for answer_now in early:
            answer_now()
        if self._sealing is None:
            self._commit(tickets)
            if self._writer.stopped is not None or self.rounds.too_late():
                self._plan_tick(0)

    @property
    def _writer(self) -> Writer:
        assert self.writer is not None
        return self.writer

    # -- commits ------------------------------------------------------------------------------------------------

    def _commit(self, tickets: list[Ticket[Any]]) -> None:
        before = self._store.injected
        try:
            group = self._writer.write()
            if group is not None and self.world.strikes("slow commit", self._faults.slow_commits):
                self._sealing = group
                self._soon(self.world.chance.choice((5, 50, 500, 8_000)), self._seal)
            elif group is not None:
                self._writer.seal(group)
                self._writer.tell(group)
        except StoreError as error:
            self._refused(error, before)
            for ticket in tickets:
                ticket.done(error)

    def _seal(self) -> None:
        group, self._sealing = self._sealing, None
        before = self._store.injected
        if group is not None:
            try:
                self._writer.seal(group)
            except StoreError as error:
                self._refused(error, before)
                self._plan_tick(0)
            else:
                self._writer.tell(group)
        self._plan_round()

    def _refused(self, error: StoreError, injected: int) -> None:
        """A store that refuses by itself was given something wrong.

        Once in a life this may be a repeat of a job that was forgotten before the engine started; from then on the
        writer knows.
        """
        if self._store.injected == injected:
            self._refusals += 1
            if self._refusals > 1:
                raise Violation(f"the store refused a commit: {error}") from error

    def _publish(self) -> None:
        """Committed events: what the outside may know."""
        committed = [event for _, event in self._feed.take()]
        self._history.committed(committed)
        for event in committed:
            if isinstance(event, e.LeaseGranted):
                self.deliver(event)

    # -- time ---------------------------------------------------------------------------------------------------

    def _plan_tick(self, delay: int) -> None:
        at = self.world.now + delay
        if self._tick_at <= self.world.now or at < self._tick_at:
            self._tick_at = at
            self._soon(delay, lambda: self._tick(at))

    def _tick(self, planned: int) -> None:
        if planned != self._tick_at:  # planned anew since
            return
        if self._sealing is not None:
            self._tick_at = 0
            self._plan_tick(10)
            return
        before = self._store.injected
        self.rounds.pass_time(self.now())
        if self.rounds.problem is not None and self._store.injected == before:
            raise Violation(f"time could not be passed: {self.rounds.problem}")
        if self._writer.recoveries != self._recoveries:
            self._recoveries = self._writer.recoveries
            self._history.engine_gap(self.now())
            self.world.note("engine: rebuilt its state from the disk")
        if self.rounds.problem is None and self.world.odds(_AUDITS):
            same_as_recovered(self._writer.state, self.disk.tables, self.settings, self.now())
        self._maybe_sweep()
        self._tick_at = 0
        self._plan_tick(max(1, min(EVERY, self.rounds.next_pass(self.now()) - self.now())))

    # -- deleting what is old, on demand ------------------------------------------------------------------------

    def _maybe_sweep(self) -> None:
        if self.settings.retention.deletes and self._sweeping is None and self.world.odds(_SWEEPS):
            self._soon(self.world.chance.choice((0, 3, 300)), self._begin_sweep)

    def _begin_sweep(self) -> None:
        """Histories may be behind by now: what they are made from must wait for them."""
        if self._writer.stopped is None and self._sweeping is None:
            self.world.note("engine: is asked to compact")
            most = self.world.chance.choice((1, 3, 500))
            self._sweeping = self._writer.sweep(self.settings.retention, self.now(), most)
            self._sweep()

    def _sweep(self) -> None:
        """One commit of it; others come between. As in the shells, it ends where the engine stops."""
        if self._sealing is not None:
            self._soon(10, self._sweep)
            return
        gone = next(self._sweeping, None) if self._sweeping and self._writer.stopped is None else None
        if gone is None:
            self._sweeping = None
            return
        before = self._store.injected
        try:
            self._writer.drop(gone)
        except StoreError as error:
            self._refused(error, before)
            self._sweeping = None
            self._plan_tick(0)
        else:
            self._soon(self.world.chance.choice((0, 1, 20)), self._sweep)

    def _check(self) -> None:
        self._actions += 1
        if self.writer is None or self.writer.stopped is not None or self._actions % self._check_every:
            return
        state, now = self.writer.state, self.now()
        verify(state)
        for lease in state.leases.values():
            if lease.expires_at > now + lease.ttl:
                raise Violation(f"lease {lease.id} of a silent holder would last {lease.expires_at - now} ms")
            if lease.fence_at is not None and lease.fence_at > now + self.settings.preemption_grace:
                raise Violation(f"lease {lease.id} has {lease.fence_at - now} ms to let go")
            timeout = state.jobs[lease.job_id].kind.of.timeout
            if lease.timeout_at is not None and lease.timeout_at > now + (timeout or 0):
                raise Violation(f"lease {lease.id} may run for another {lease.timeout_at - now} ms")
