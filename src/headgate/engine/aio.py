"""The engine for asyncio: one commit per turn of the loop; on a slow disk only the waiting moves to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

from headgate.core import commands as c
from headgate.core.errors import HeadgateError
from headgate.core.events import Event
from headgate.core.ordering import AsyncDecider
from headgate.core.retention import Retention
from headgate.core.state import State
from headgate.engine.compacting import counted
from headgate.engine.company import Company
from headgate.engine.errors import EngineStopped
from headgate.engine.feed import Subscription
from headgate.engine.rounds import EVERY, STANDBY_EVERY, Bundle, Pending, Rounds, Ticket, callers_of
from headgate.engine.writer import Group, Writer, moved_on
from headgate.ports import Clock, Compacted

R = TypeVar("R")
SLOW = 2.0
"""Milliseconds of an average commit above which the loop no longer waits for it."""
_WEIGHT = 0.2


class AsyncEngine:
    """A writer on an event loop."""

    def __init__(
        self, writer: Writer, clock: Clock, *, stopwatch: Callable[[], float], thread: bool | None = None
    ) -> None:
        self.writer = writer
        self.rounds = Rounds(writer)
        self.clock = clock
        self.commit_ms = 0.0
        """The running average of what a commit takes."""
        self._stopwatch = stopwatch
        self._thread = thread
        self._queue: list[Pending[Any]] = []
        self._scheduled = False
        self._company = Company()
        self._lingering: asyncio.TimerHandle | None = None
        self._callers: set[Hashable] = set()
        """Who spoke in the round whose commit is under way."""
        self._sealing: asyncio.Task[None] | None = None
        self._waiters: set[asyncio.Event] = set()
        self._timer: asyncio.Task[None] | None = None
        self._nudge = asyncio.Event()
        self._decider = writer.policy if isinstance(writer.policy, AsyncDecider) else None
        self._planning: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def problem(self) -> str | None:
        """Why the engine does not serve, while it does not."""
        return self.rounds.problem

    @property
    def threaded(self) -> bool:
        """Whether commits wait in a thread: as told, else as measured."""
        return self.commit_ms > SLOW if self._thread is None else self._thread

    # -- life ---------------------------------------------------------------------------------------------------

    async def start(self, standby: bool = False) -> Self:
        """Open the store, rebuild the state, and let time pass. As a standby, wait while another engine owns it."""
        self._loop = asyncio.get_running_loop()
        while not self.rounds.open(self.clock.now(), standby):
            await self._stand_by()
        self.rounds.pass_time(self.clock.now(), plan=self._decider is None)
        self._timer = self._loop.create_task(self._keep_time(), name="headgate-timer")
        return self

    async def _stand_by(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STANDBY_EVERY / 1000):
                await self._nudge.wait()
        if self._stopping:
            raise EngineStopped("the engine was stopped while it stood by")

    async def stop(self) -> None:
        """Commit what is there and let go of the store. Stopping twice is the same as once."""
        self._stopping = True
        self._nudge.set()
        if self._timer is not None:
            await self._timer
        if self._planning is not None:
            await self._planning
        await self._settle()
        self._round()
        await self._settle()
        self.rounds.catch_up()
        self.writer.close()
        self._notify()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- commands and questions ---------------------------------------------------------------------------------

    async def do(self, command: c.Command[R]) -> R:
        """Carry out a command and return when its effects are durable."""
        ticket = Ticket(command)
        await self._durable(ticket)
        return ticket.result()

    async def do_all(self, commands: Sequence[c.Command[Any]], caller: Hashable = None) -> list[Any]:
        """Carry out commands in order, in one commit; what is refused stands as its error in the place of its reply.

        A `caller` that is named is likely to speak again soon: on a slow disk the others wait a moment for it.
        """
        if not commands:
            return []
        bundle = Bundle(commands, caller=caller)
        await self._durable(bundle)
        return bundle.replies()

    def begin_all(
        self, commands: Sequence[c.Command[Any]], then: Callable[[list[Any]], None], caller: Hashable = None
    ) -> None:
        """The same for whoever does not wait: `then` is given the replies in the turn of the loop in which they are
        durable, before anybody hears of the events. It must be quick and must not raise.
        """
        if not commands:
            then([])
            return
        bundle = Bundle(commands, caller=caller)

        def settled() -> None:
            if bundle.reply is None and bundle.error is None:  # nothing to commit: it is being carried out just now
                self._loop.call_soon(settled)
            else:
                then(bundle.replies())

        bundle.on_settled = settled
        self._queue.append(bundle)
        self._schedule()

    def _durable(self, ticket: Pending[Any]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()

        def settled() -> None:
            if not future.done():  # the caller may have been cancelled meanwhile
                future.set_result(None)

        ticket.on_settled = settled
        self._queue.append(ticket)
        self._schedule()
        return future

    def read(self, question: Callable[[State], R]) -> R:
        """Ask the state something."""
        if self.writer.stopped is not None:
            raise EngineStopped(f"the engine has stopped: {self.writer.stopped}")
        return question(self.writer.state)

    async def wait_for(self, question: Callable[[State], R | None], within: float | None = None) -> R | None:
        """Wait until the question has an answer; none if it has not in time."""
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(within):
                while not self.read(question):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(changed)
        return self.read(question)

    async def recovered(self) -> None:
        """Wait until the engine serves, after a failed commit."""
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            while self.writer.stopped is not None:
                changed.clear()
                await changed.wait()
        finally:
            self._waiters.discard(changed)

    def catch_up(self) -> None:
        """Bring the history of jobs up to what is committed, unless a commit is under way."""
        if self._sealing is None and self.writer.stopped is None:
            self.rounds.catch_up()

    async def compact(self, retention: Retention) -> Compacted:
        """Delete everything older than the given ages; commands are served between the commits."""
        self.read(lambda _: None)
        self.catch_up()
        steps, total = self.writer.sweep(retention, self.clock.now()), Compacted()
        while True:
            await self._settle()
            self.read(lambda _: None)  # it may have stopped meanwhile
            gone = next(steps, None)
            if gone is None:
                break
            self.writer.drop(gone)
            total = counted(total, gone)
            await asyncio.sleep(0)
        while self.writer.stopped is None and self.writer.store.shrink(spare=0.0):
            await asyncio.sleep(0)
            await self._settle()
        return total

    def record(self, kind: str, key: str, body: bytes) -> None:
        """Add an entry to a log (a job's output, the audit): it is committed in this turn of the loop."""
        if self.writer.stopped is None:
            self.writer.record(kind, self.clock.now(), key, body)
            self._schedule()

    def subscribe(self, limit: int = 10_000, wants: Callable[[Event], bool] | None = None) -> Subscription:
        """Listen to committed events."""
        return self.writer.feed.subscribe(limit, wants)

    # -- rounds -------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled and self._sealing is None:
            self._scheduled = True
            self._loop.call_soon(self._round_in_company)
        elif self._lingering is not None and not self._company.missing(callers_of(self._queue)):
            self._lingering.cancel()
            self._lingering = None
            self._company.waited(came=True)
            self._loop.call_soon(self._round)

    def _round_in_company(self) -> None:
        """Begin a round, or have it begin in a moment if it pays to wait for others."""
        wait = self.threaded and self._sealing is None
        patience = self._company.patience(callers_of(self._queue), self._stopwatch()) if wait else 0.0
        if patience:
            self._lingering = self._loop.call_later(patience, self._round_alone)
        else:
            self._round()

    def _round_alone(self) -> None:
        self._lingering = None
        self._company.waited(came=False)
        self._round()

    def _round(self) -> None:
        """1. carry out the commands, 2. plan, 3. commit, 4. hand out the answers."""
        self._scheduled = False
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._sealing is not None:
            return
        tickets, self._queue = self._queue, []
        self._callers = callers_of(tickets)
        if self._decider is None:
            self.rounds.accept(tickets, self.clock.now())
        else:
            self.rounds.carry_out(tickets, self.clock.now())
            self._plan_if_wanted(self._decider)
        try:
            self._commit()
        except Exception as error:  # noqa: BLE001 - the writer has told those who wait; tell the rest
            for ticket in tickets:
                ticket.done(error)
        if self.writer.stopped is not None or self.rounds.too_late():
            self._nudge.set()

    def _plan_if_wanted(self, decider: AsyncDecider) -> None:
        if self._planning is None and not self._stopping and self.writer.wants_cycle():
            self._planning = self._loop.create_task(self._plan(decider))

    async def _plan(self, decider: AsyncDecider) -> None:
        """The cycle of a policy that thinks elsewhere: commands are served between its answers."""
        try:
            while self.writer.stopped is None:
                state, now = self.writer.state, self.clock.now()
                self.writer.cycle_begins()
                actions = await decider.apropose(state, now)
                if not actions or self._rebuilt_since(state):
                    return
                await self._settle()
                scheduled = self.writer.dispose(actions, self.clock.now())
                self._schedule()
                if not moved_on(actions, scheduled):
                    return
        except HeadgateError as error:
            self.rounds.problem = str(error)
        finally:
            self._planning = None
            self._schedule()  # what came meanwhile may want a plan of its own

    def _rebuilt_since(self, state: State) -> bool:
        return self.writer.stopped is not None or self.writer.state is not state

    def _commit(self) -> None:
        group = self.writer.write()
        if group is None:
            self._notify()
        elif self.threaded:
            self._sealing = self._loop.create_task(self._seal_in_thread(group))
        else:
            began = self._stopwatch()
            self.writer.seal(group)
            self._measure(began)
            self.writer.tell(group)
            self._notify()

    async def _seal_in_thread(self, group: Group) -> None:
        began = self._stopwatch()
        try:
            await asyncio.to_thread(self.writer.store.seal)
        except Exception as error:  # noqa: BLE001 - told to everybody who waits, and to the timer
            self.writer.fail(group, error)
            self._nudge.set()
        else:
            self._measure(began)
            self._company.served(self._callers, began, self._stopwatch())
            self.writer.sealed(group)
            self.writer.tell(group)
        self._sealing = None
        self._notify()
        if self._queue:
            self._schedule()

    async def _settle(self) -> None:
        while self._sealing is not None:
            await self._sealing

    def _measure(self, began: float) -> None:
        took = (self._stopwatch() - began) * 1000
        self.commit_ms += _WEIGHT * (took - self.commit_ms)

    def _notify(self) -> None:
        for changed in self._waiters:
            changed.set()

    # -- time ---------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        while not self._stopping and not self.rounds.deposed:
            now = self.clock.now()
            delay = max(0.0, (self.rounds.next_pass(now) - now) / 1000)
            try:
                async with asyncio.timeout(min(delay, EVERY / 1000)):
                    await self._nudge.wait()
            except TimeoutError:
                pass
            self._nudge.clear()
            await self._settle()
            if not self._stopping:
                self.rounds.pass_time(self.clock.now(), plan=self._decider is None)
                if self._decider is not None:
                    self._plan_if_wanted(self._decider)
                self._notify()
