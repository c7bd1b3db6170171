"""A round of work, and the passing of time: what every shell around the writer does. No threads, no loop, no clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby
from typing import Any, Generic, TypeVar

from headgate.core import commands as c
from headgate.core.errors import HeadgateError
from headgate.engine.writer import Writer
from headgate.ports import Deposed, StoreOwned, StoreUnavailable

R = TypeVar("R")
EVERY = 1_000
"""Milliseconds between two ticks when nothing is due sooner."""
INDEX_EVERY = 100
"""Milliseconds between two looks at the history index, or at what is too old, while there is more to do."""

STANDBY_EVERY = 250
"""Milliseconds between two tries of a standby to become the owner."""

SLACK = 256
"""A shell is woken only if that gains more than this: the cheap look at the timers is no more exact."""


class Pending(ABC, Generic[R]):
    """Something to be carried out, on its way."""

    __slots__ = ("error", "on_settled", "reply", "settled")

    def __init__(self, on_settled: Callable[[], None] | None = None) -> None:
        self.reply: R | None = None
        self.error: Exception | None = None
        self.settled = False
        self.on_settled = on_settled

    @abstractmethod
    def carry_out(self, writer: Writer, now: int) -> None:
        """Hand it to the writer."""

    def done(self, error: Exception | None) -> None:
        """The effects are durable, or never will be."""
        if self.settled:
            return
        self.error = error
        self.settled = True
        if self.on_settled is not None:
            self.on_settled()

    def result(self) -> R:
        """The reply, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.reply  # type: ignore[return-value]  # settled without an error: there is a reply


class Ticket(Pending[R]):
    """A command on its way."""

    __slots__ = ("command",)

    def __init__(self, command: c.Command[R], on_settled: Callable[[], None] | None = None) -> None:
        super().__init__(on_settled)
        self.command = command

    def carry_out(self, writer: Writer, now: int) -> None:
        """Hand the command to the writer."""
        self.reply = writer.accept(self.command, now, self.done)


class Bundle(Pending[list[Any]]):
    """Commands of one caller on their way together, each for itself: refusals stand among the replies."""

    __slots__ = ("caller", "commands")

    def __init__(
        self,
        commands: Sequence[c.Command[Any]],
        on_settled: Callable[[], None] | None = None,
        caller: Hashable = None,
    ) -> None:
        """`caller` is somebody who is likely to speak again soon."""
        super().__init__(on_settled)
        self.commands = commands
        self.caller = caller

    def carry_out(self, writer: Writer, now: int) -> None:
        """Hand the commands to the writer."""
        self.reply = writer.accept_all(self.commands, now, self.done)

    def replies(self) -> list[Any]:
        """A reply or an error for each command."""
        if self.error is not None:
            return [self.error] * len(self.commands)
        return self.result()


def callers_of(tickets: Iterable[Pending[Any]]) -> set[Hashable]:
    """Who of those who speak is likely to speak again soon."""
    return {ticket.caller for ticket in tickets if isinstance(ticket, Bundle) and ticket.caller is not None}


class Rounds:
    """Drives a writer."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.problem: str | None = None
        """Why the engine does not serve, while it does not."""
        self.deposed = False
        self.wake_at = 0
        """When the shell means to pass time again."""
        self._stood_by = False

    def open(self, now: int, standby: bool) -> bool:
        """Become the owner of the store; false if a standby has to try again.

        A standby waits for an owner to go, and then also for a store that went with it. A store that cannot be had
        from the first is told at once.
        """
        try:
            self.writer.open(now)
        except (StoreOwned, StoreUnavailable) as error:
            if not standby or (isinstance(error, StoreUnavailable) and not self._stood_by):
                raise
            self._stood_by = True
            self.problem = str(error)
            return False
        return True

    def accept(self, tickets: Sequence[Pending[Any]], now: int) -> None:
        """Carry out commands, then let the policy plan."""
        self.carry_out(tickets, now)
        if self.writer.wants_cycle():
            self.writer.cycle(now)

    def carry_out(self, tickets: Sequence[Pending[Any]], now: int) -> None:
        """Carry out commands. A caller's error is the caller's alone."""
        for kind, run in groupby(tickets, type):
            if kind is Ticket:
                self._carry_out_together(list(run), now)  # type: ignore[arg-type]  # they are tickets
                continue
            for ticket in run:
                try:
                    ticket.carry_out(self.writer, now)
                except Exception as error:  # noqa: BLE001 - handed to the caller
                    self._refuse(ticket, error)

    def _carry_out_together(self, tickets: list[Ticket[Any]], now: int) -> None:
        """Single commands of many callers: what is done once for all of them costs each less."""
        try:
            replies = self.writer.take_all([ticket.command for ticket in tickets], now)
        except Exception as error:  # noqa: BLE001 - handed to the callers
            replies = [error] * len(tickets)
        for ticket, reply in zip(tickets, replies, strict=True):
            if isinstance(reply, Exception):
                self._refuse(ticket, reply)
            else:
                ticket.reply = reply
                self.writer.when_durable(ticket.done)

    def _refuse(self, ticket: Pending[Any], refusal: Exception) -> None:
        """What it rests on may not be on the disk yet: "there is a job X already" must not be said too early."""
        if self.writer.stopped is not None:
            ticket.done(refusal)
        else:
            self.writer.when_durable(lambda failure: ticket.done(failure or refusal))

    def pass_time(self, now: int, *, plan: bool = True) -> None:
        """Tick; after a failed commit, rebuild from the store first. Problems are kept for all to see, and retried.

        Only being deposed is for good: another engine owns the store, and this one has stepped down.
        """
        try:
            if isinstance(self.writer.stopped, Deposed):  # to open anew would be to depose the other one in turn
                raise self.writer.stopped  # noqa: TRY301 - told apart from other problems below
            if self.writer.stopped is not None:  # memory is ahead of the disk: rebuild it from there
                self.writer.open(now)
            self.writer.tick(now)
            if plan and self.writer.wants_cycle():
                self.writer.cycle(now)
            self.writer.flush()
            self.writer.index()
            self.writer.compact(now)
        except Deposed as error:
            self.problem, self.deposed = str(error), True
        except (HeadgateError, OSError) as error:
            self.problem = str(error)
        except Exception as error:  # noqa: BLE001 - said aloud; the next round rebuilds from the store
            self.problem = f"{type(error).__name__}: {error}"
            self.writer.halt(error)
        else:
            self.problem = self.writer.policy_problem

    def catch_up(self) -> None:
        """Finish the history index, before stopping."""
        while self.writer.stopped is None and self.writer.index_backlog:
            self.writer.index()

    def next_pass(self, now: int) -> int:
        """When time should be passed again."""
        if self.writer.stopped is not None:
            return now + EVERY
        due = self.writer.state.next_timer()
        soon = now + (INDEX_EVERY if self.writer.behind else EVERY)
        self.wake_at = soon if due is None else min(soon, max(now, due))
        return self.wake_at

    def too_late(self) -> bool:
        """Whether something has come up that is due before the shell means to wake."""
        if self.writer.stopped is not None:
            return False
        soonest = self.writer.state.soonest_timer()
        return soonest is not None and soonest + SLACK <= self.wake_at
