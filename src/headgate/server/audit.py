"""The audit log: who did what, when, and with what outcome. It only grows."""

from __future__ import annotations

from typing import Any

import msgspec

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

    def note(self, entry: Entry) -> None:
        """Keep an entry; it is committed in this turn of the loop."""
        self._engine.record(KIND, entry.who, _encode(entry))


def read_entry(body: bytes) -> dict[str, Any]:
    """An entry from the log."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
