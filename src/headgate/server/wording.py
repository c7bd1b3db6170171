"""Words on leases, as they come by a call or by a stream: in order, in one commit, each with its own outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headgate.engine.aio import AsyncEngine

LOG = "log"
_CUT = "\n[cut]\n"


class Said(msgspec.Struct, frozen=True):
    """A command on a lease, and what the work has printed."""

    command: Any
    log: str = ""


class Wording:
    """Says words to the engine."""

    def __init__(self, engine: AsyncEngine, max_log: int) -> None:
        self._engine = engine
        self._max_log = max_log

    async def say(self, words: Sequence[Said], worker_id: str | None = None) -> list[Any]:
        """Replies in order; an error stands in the place of the reply to a word that was refused."""
        return await self._engine.do_all(self._commands(words), worker_id)

    def begin(self, words: Sequence[Said], worker_id: str, then: Callable[[list[Any]], None]) -> None:
        """The same for whoever does not wait."""
        self._engine.begin_all(self._commands(words), then, worker_id)

    def _commands(self, words: Sequence[Said]) -> list[Any]:
        for word in words:
            if word.log:
                self._keep_log(word)
        return [word.command for word in words]

    def _keep_log(self, word: Said) -> None:
        """Only the holder adds to the output, and a word that is repeated after the end adds nothing."""
        command = word.command
        lease = self._engine.writer.state.leases.get(command.lease_id)
        if lease is not None and lease.token == command.token:
            data = word.log.encode("utf-8", "replace")
            if len(data) > self._max_log:
                data = data[: self._max_log] + _CUT.encode()
            self._engine.record(LOG, lease.job_id, data)
