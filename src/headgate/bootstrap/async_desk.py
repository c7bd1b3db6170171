"""An engine on a loop as the policies see it from threads: they check and deploy beside the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from headgate.bootstrap.engine import each_job, each_record
from headgate.core.commands import Command
from headgate.engine.aio import AsyncEngine
from headgate.engine.questions import GetDocuments, Question, answer
from headgate.policy.measuring import JobSpan

R = TypeVar("R")


class AsyncDesk:
    """Hands every word over to the loop and waits for the answer. Not to be called on the loop itself."""

    def __init__(self, engine: AsyncEngine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop

    def do(self, command: Command[R]) -> R:
        """Carry out a command."""
        return self._over(lambda: self._engine.do(command))

    def documents(self, kind: str) -> dict[str, bytes]:
        """All documents of a kind."""

        async def read() -> dict[str, bytes]:
            writer, now = self._engine.writer, self._engine.clock.now()
            return answer(GetDocuments(kind), writer.state, writer.store, now)

        return self._over(read)

    def records(self, kind: str, key: str | None = None, since: int = 0, until: int | None = None) -> list[bytes]:
        """Entries of a log, oldest first; the store is read beside the work."""
        return [row.body for row in each_record(self._ask, kind, key, since, until)]

    def each_record(self, kind: str, since: int = 0) -> Iterator[bytes]:
        """The same one by one."""
        return (row.body for row in each_record(self._ask, kind, since=since))

    def each_job(self, since: int) -> Iterator[JobSpan]:
        """Jobs submitted from a time on."""
        return each_job(self._ask, since)

    def _ask(self, question: Question[R]) -> R:
        writer = self._engine.writer
        return answer(question, writer.state, writer.store, self._engine.clock.now())

    def _over(self, step: Callable[[], Awaitable[R]]) -> R:
        async def taken() -> R:
            return await step()

        return asyncio.run_coroutine_threadsafe(taken(), self._loop).result()
