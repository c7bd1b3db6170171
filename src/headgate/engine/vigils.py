"""Waiting for an answer: whoever leads a round looks for all who wait, and wakes only those who have one."""

from __future__ import annotations

from _thread import allocate_lock
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from headgate.core.state import State
from headgate.engine.rounds import Pending
from headgate.engine.working import LOG, Work, Worked, hello_of, log_row, news, refusal
from headgate.engine.writer import Writer

R = TypeVar("R")


class Vigil(ABC, Generic[R]):
    """Somebody waits: looked for after every round, until the answer is enough or the time is over."""

    __slots__ = ("error", "on_over", "reply")

    def __init__(self, on_over: Callable[[], None] = lambda: None) -> None:
        self.on_over = on_over
        self.reply: R | None = None
        self.error: Exception | None = None

    def ask(self, state: State, now: int) -> bool:
        """Look for an answer; whether it is enough. An error is one. What it rests on may not be durable yet."""
        try:
            return self.look(state, now)
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            self.error = error
            return True

    @abstractmethod
    def look(self, state: State, now: int) -> bool:
        """The same, with errors raised."""

    def result(self) -> R:
        """The last answer, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.reply  # type: ignore[return-value]  # it was asked at least once


class Awaited(Vigil[R]):
    """A question to the state, until it has an answer."""

    __slots__ = ("_question",)

    def __init__(self, question: Callable[[State], R], on_over: Callable[[], None] = lambda: None) -> None:
        super().__init__(on_over)
        self._question = question

    def look(self, state: State, _now: int) -> bool:
        """Whether there is one."""
        self.reply = self._question(state)
        return bool(self.reply)


class Said(Pending[list[Any]]):
    """What a worker says, on its way."""

    __slots__ = ("asked",)

    def __init__(self, asked: Work) -> None:
        super().__init__()
        self.asked = asked

    def carry_out(self, writer: Writer, now: int) -> None:
        """A worker that speaks is there again; its output comes before the word that ends the lease."""
        for said in self.asked.logs:
            row = log_row(writer.state, *said)
            if row is not None:
                writer.record(LOG, now, *row)
        hello = hello_of(writer.state, self.asked)
        if hello is not None:
            writer.accept(hello, now, lambda _: None)
        self.reply = writer.accept_all(self.asked.words, now, self.done)


class Listening(Vigil[Worked]):
    """A worker that has spoken waits for what became of its words, and for news if there is none."""

    __slots__ = ("said",)

    def __init__(self, said: Said, on_over: Callable[[], None] = lambda: None) -> None:
        super().__init__(on_over)
        self.said = said

    def look(self, state: State, now: int) -> bool:
        """Whether there is news, or the worker has to speak again to be there."""
        said, asked = self.said, self.said.asked
        if said.error is not None:
            raise said.error
        self.reply = found = news(state, asked, now)
        refused = tuple(refusal(place, r) for place, r in enumerate(said.reply or ()) if isinstance(r, Exception))
        if refused:
            self.reply = msgspec.structs.replace(found, refused=refused)
            return True
        return asked.within <= 0 or found.news or hello_of(state, asked) is not None


class Vigils:
    """All who wait."""

    def __init__(self) -> None:
        self._waiting: dict[Vigil[Any], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def over(self, state: State, now: int, new: Iterable[Vigil[Any]], *, changed: bool) -> list[Vigil[Any]]:
        """Those who have their answer now. Where nothing has changed only the new ones need to be asked."""
        asked = [*self._waiting, *new] if changed else new
        over = []
        for vigil in asked:
            if vigil.ask(state, now):
                over.append(vigil)
                self._waiting.pop(vigil, None)
            else:
                self._waiting[vigil] = None
        return over

    def fail(self, error: Exception, new: Iterable[Vigil[Any]] = ()) -> list[Vigil[Any]]:
        """Nobody will have an answer."""
        over = [*self._waiting, *new]
        self._waiting.clear()
        for vigil in over:
            vigil.error = error
        return over

    def drop(self, vigil: Vigil[Any]) -> bool:
        """Whoever kept it has given up; false if it was over already."""
        return self._waiting.pop(vigil, self) is None


class Sleeper:
    """For a thread that waits for something."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def wake(self) -> None:
        """Let the thread look again; it may be awake already."""
        try:
            self._lock.release()
        except RuntimeError:
            return

    def sleep(self, seconds: float | None = None) -> bool:
        """Sleep until woken; false if nobody did in time."""
        return self._lock.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
