"""The history index: turns journal entries into rows by job, off the hot path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headgate.core import events as e
from headgate.engine.rows import JOB_FIELD
from headgate.ports import EventRow, JournalRow

encode = msgspec.msgpack.Encoder().encode
_PLACES = 20
"""Bits for the place of an event inside its commit; a commit holds at most a million events."""
_KINDS: dict[type[e.Event], tuple[str, str]] = {
    kind: (field, str(kind.__struct_config__.tag)) for kind, field in JOB_FIELD.items()
}
"""By type of event: the field that names its job, and what history calls it."""
_NONE: Mapping[str, int] = {}


class HistoryIndex:
    """Commits whose events are not yet in the history of their jobs."""

    def __init__(self, seq_of: Callable[[str], int | None]) -> None:
        self._seq_of = seq_of
        self._waiting: deque[tuple[int, int, list[e.Event], Mapping[str, int]]] = deque()
        self.backlog = 0

    def add(self, number: int, at: int, events: list[e.Event], seqs: Mapping[str, int] = _NONE) -> None:
        """A commit was made; `seqs` has the submission numbers of its jobs, as far as they are at hand."""
        self._waiting.append((number, at, events, seqs))
        self.backlog += len(events)

    def add_journal(self, row: JournalRow) -> None:
        """A commit from before a restart."""
        self.add(row.number, row.at, e.decode(row.events))

    def told_before(self) -> int | None:
        """Jobs that ended before this time have their whole history; none: all have."""
        return min(self._waiting[0][1], self._waiting[-1][1]) if self._waiting else None

    def take(self, most: int) -> tuple[list[EventRow], int | None]:
        """Rows of whole commits, about `most` of them, and the number of the last commit they cover."""
        rows: list[EventRow] = []
        covered: int | None = None
        while self._waiting and len(rows) < most:
            covered, _, events, seqs = self._waiting.popleft()
            self.backlog -= len(events)
            self._add_rows(rows, covered, events, seqs)
        return rows, covered

    def _add_rows(self, rows: list[EventRow], number: int, events: list[Any], seqs: Mapping[str, int]) -> None:
        place = number << _PLACES
        for event in events:
            kind = _KINDS.get(type(event))
            if kind is not None:
                field, name = kind
                job_id = getattr(event, field)
                seq = seqs.get(job_id) or self._seq(event, job_id)
                if seq is not None:
                    rows.append(EventRow(seq, place, event.at, name, encode(event)))
            place += 1

    def _seq(self, event: Any, job_id: str) -> int | None:
        if type(event) is e.JobSubmitted:
            return event.seq
        return self._seq_of(job_id)
