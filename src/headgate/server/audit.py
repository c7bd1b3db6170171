"""The audit log: who did what, when, and with what outcome. It only grows."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core.commands import Heartbeats
from headgate.engine.aio import AsyncEngine

KIND = "audit"
_encode = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, frozen=True):
    """One act."""

    who: str
    call: str
    target: dict[str, str]
    status: int
    remote: str = ""
    code: str = ""


class Audit:
    """Writes entries into the engine's own log."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    def jot(self, entry: Entry) -> None:
        """Keep an entry; it is committed in this turn of the loop."""
        self._engine.record(KIND, entry.who, _encode(entry))

    async def note(self, entry: Entry) -> None:
        """Keep an entry, and return when it is durable: whoever hears that something was done can rely on its trace."""
        self.jot(entry)
        await self._engine.do(Heartbeats(()))  # changes nothing, and is committed with or after the entry


def read_entry(body: bytes) -> dict[str, Any]:
    """An entry from the log."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
