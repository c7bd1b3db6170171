"""The history index: turns journal entries into rows by job, off the hot path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headgate.core import events as e
from headgate.engine.rows import JOB_FIELD
from headgate.ports import EventRow, JournalRow

PLACES = 20
"""Bits for the place of an event inside its commit; a commit holds at most a million events."""


class _Event(msgspec.Struct, gc=False, array_like=True):
    """The beginning of an event, as far as all of them are alike."""

    name: str
    at: int
    second: Any = None
    third: Any = None


_events = msgspec.msgpack.Decoder(list[_Event]).decode
_entries = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_SUBMITTED = str(e.JobSubmitted.__struct_config__.tag)
_KINDS: dict[str, str] = {
    str(kind.__struct_config__.tag): _Event.__struct_fields__[kind.__struct_fields__.index(field) + 1]
    for kind, field in JOB_FIELD.items()
}
"""By what history calls an event: which of its fields names the job."""
_NONE: Mapping[str, int] = {}
MOST_HELD = 40_000
"""Events that wait in memory at most; what is beyond them is read from the journal again when its turn comes."""


class HistoryIndex:
    """Commits whose events are not yet in the history of their jobs: the next ones in memory, the rest in the journal.

    How far it has come is durable with the rows themselves, so nothing is lost by falling behind, or by a crash.
    """

    def __init__(
        self,
        seq_of: Callable[[str], int | None],
        journal: Callable[[int], Iterable[JournalRow]],
        indexed: int,
        most: int = MOST_HELD,
    ) -> None:
        self._seq_of = seq_of
        self._journal = journal
        self._most = most
        self._known = indexed
        """The last commit that was held in memory, or is."""
        self._held = 0
        self._beyond = 0
        """Events after that which are in the journal alone, as far as they were counted."""
        # Encoded, as the journal has them: what is held stays small.
        self._waiting: deque[tuple[int, int, bytes, int, Mapping[str, int]]] = deque()
        self._refill()

    @property
    def backlog(self) -> int:
        """Events that wait, at least."""
        return self._held + self._beyond

    def add(self, number: int, at: int, journal: bytes, events: int, seqs: Mapping[str, int] = _NONE) -> None:
        """A commit of so many events was made; `seqs` has the numbers of its jobs, as far as they are at hand."""
        if self._beyond or self._held >= self._most:
            self._beyond += max(1, events)
        else:
            self._hold(number, at, journal, events, seqs)

    def _hold(self, number: int, at: int, journal: bytes, events: int, seqs: Mapping[str, int]) -> None:
        self._waiting.append((number, at, journal, events, seqs))
        self._known = number
        self._held += events

    def _refill(self) -> None:
        """Take the next commits from the journal. Everything up to now is in it: nothing is being committed."""
        left = max(1, self._beyond)
        for row in self._journal(self._known):
            if self._held >= self._most:
                self._beyond = max(1, left)
                return
            events = len(_entries(row.events))
            left -= events
            self._hold(row.number, row.at, row.events, events, _NONE)
        self._beyond = 0

    def told_before(self) -> int | None:
        """Jobs that ended before this time have their whole history; none: all have."""
        return min(self._waiting[0][1], self._waiting[-1][1]) if self._waiting else None

    def take(self, most: int) -> tuple[list[EventRow], int | None]:
        """Rows of whole commits, about `most` of them, and the number of the last commit they cover."""
        rows: list[EventRow] = []
        covered: int | None = None
        if not self._waiting and self._beyond:
            self._refill()
        while self._waiting and len(rows) < most:
            covered, _, journal, events, seqs = self._waiting.popleft()
            self._held -= events
            self._add_rows(rows, covered, journal, seqs)
        return rows, covered

    def _add_rows(self, rows: list[EventRow], number: int, journal: bytes, seqs: Mapping[str, int]) -> None:
        """An event is as long as the journal has it: it is not taken apart to be put together again."""
        place = number << PLACES
        for event, body in zip(_events(journal), _entries(journal), strict=True):
            field = _KINDS.get(event.name)
            if field is not None:
                seq = event.third if event.name == _SUBMITTED else self._seq(getattr(event, field), seqs)
                if seq is not None:
                    rows.append(EventRow(seq, place, event.at, event.name, bytes(body)))
            place += 1

    def _seq(self, job_id: Any, seqs: Mapping[str, int]) -> int | None:
        if type(job_id) is not str:
            raise msgspec.ValidationError(f"{job_id!r} is no name of a job")
        return seqs.get(job_id) or self._seq_of(job_id)
