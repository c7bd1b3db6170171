"""An engine on a loop as the policies see it from a thread: a place for documents, and a log of decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headgate.core.commands import Command
from headgate.engine.aio import AsyncEngine
from headgate.server.records import read_after

R = TypeVar("R")
_ALL = 1 << 62


class LoopDesk:
    """Blocking calls from other threads into the engine's loop; never to be used on that loop itself."""

    def __init__(self, engine: AsyncEngine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop

    def do(self, command: Command[R]) -> R:
        """Carry out a command and return when its effects are durable."""
        return self._run(self._engine.do(command))

    def documents(self, kind: str) -> dict[str, bytes]:
        """All documents of a kind."""
        return self._run(self._documents(kind))

    def records(self, kind: str, key: str | None = None) -> list[bytes]:
        """Entries of a log, oldest first."""
        return [row.body for row in read_after(self._engine.writer.store, kind, key, 0, _ALL)]

    async def _documents(self, wanted: str) -> dict[str, bytes]:
        documents = self._engine.read(lambda state: state.documents)
        return {id_: body for (kind, id_), body in documents.items() if kind == wanted}

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
