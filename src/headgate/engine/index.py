"""The history index: turns journal entries into rows by job, off the hot path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from headgate.core import events as e
from headgate.engine.rows import JOB_FIELD
from headgate.ports import EventRow, JournalRow

encode = msgspec.msgpack.Encoder().encode
_PLACES = 20
"""Bits for the place of an event inside its commit; a commit holds at most a million events."""


class HistoryIndex:
    """Commits whose events are not yet in the history of their jobs."""

    def __init__(self, seq_of: Callable[[str], int | None]) -> None:
        self._seq_of = seq_of
        self._waiting: deque[tuple[int, list[e.Event]]] = deque()
        self.backlog = 0

    def add(self, number: int, events: list[e.Event]) -> None:
        """A commit was made."""
        self._waiting.append((number, events))
        self.backlog += len(events)

    def add_journal(self, row: JournalRow) -> None:
        """A commit from before a restart."""
        self.add(row.number, e.decode(row.events))

    def take(self, most: int) -> tuple[list[EventRow], int | None]:
        """Rows of whole commits, about `most` of them, and the number of the last commit they cover."""
        rows: list[EventRow] = []
        covered: int | None = None
        while self._waiting and len(rows) < most:
            covered, events = self._waiting.popleft()
            self.backlog -= len(events)
            rows += self._rows(covered, events)
        return rows, covered

    def _rows(self, number: int, events: list[e.Event]) -> list[EventRow]:
        rows = []
        for place, event in enumerate(events):
            field = JOB_FIELD.get(type(event))
            seq = None if field is None else self._seq(event, field)
            if seq is not None:
                kind = str(type(event).__struct_config__.tag)
                rows.append(EventRow(seq, number << _PLACES | place, event.at, kind, encode(event)))
        return rows

    def _seq(self, event: e.Event, field: str) -> int | None:
        if type(event) is e.JobSubmitted:
            return event.seq
        return self._seq_of(getattr(event, field))
