"""How a batch becomes statements. Each kind of row has one prepared statement for blocks of rows and one for the rest.

A block of twenty rows a statement takes two thirds of the time of twenty statements; longer ones gain nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import apsw

from headgate.ports import Batch, DocumentRow, EndRow, EventRow, Gone, JobRow, LeaseRow, RecordRow, StatusRow

_BLOCK: Final = 20


class _Put:
    """Puts rows of one type into their table; rows of the same key are replaced."""

    def __init__(
        self, table: str, row_type: type[tuple[object, ...]], verb: str = "INSERT OR REPLACE", conflict: str = ""
    ) -> None:
        columns = tuple(row_type.__annotations__)
        row = f"({', '.join('?' * len(columns))})"
        self._start = f"{verb} INTO {table} ({', '.join(columns)}) VALUES "
        self.single = f"{self._start}{row} {conflict}"
        self.block = f"{self._start}{', '.join([row] * _BLOCK)} {conflict}"

    def __call__(self, connection: apsw.Connection, rows: Sequence[tuple[object, ...]]) -> None:
        whole = len(rows) - len(rows) % _BLOCK
        if whole:
            blocks = [tuple(chain.from_iterable(rows[at : at + _BLOCK])) for at in range(0, whole, _BLOCK)]
            connection.executemany(self.block, blocks)
            rows = rows[whole:]
        if rows:
            connection.executemany(self.single, rows)


class _Drop:
    """Deletes rows by a number: that of their job, unless told otherwise."""

    def __init__(self, table: str, column: str = "seq") -> None:
        self.single = f"DELETE FROM {table} WHERE {column} = ?"
        self.block = f"DELETE FROM {table} WHERE {column} IN ({', '.join('?' * _BLOCK)})"

    def __call__(self, connection: apsw.Connection, numbers: Sequence[int]) -> None:
        whole = len(numbers) - len(numbers) % _BLOCK
        if whole:
            connection.executemany(self.block, [numbers[at : at + _BLOCK] for at in range(0, whole, _BLOCK)])
        for number in numbers[whole:]:
            connection.execute(self.single, (number,))


# A job of the same number is replaced, but never one of the same id: that would lose an acknowledged job.
_SAME_JOB = "ON CONFLICT (seq) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in JobRow._fields[1:])

_put_new_jobs: Final = _Put("job", JobRow, "INSERT")
_put_same_jobs: Final = _Put("job", JobRow, "INSERT", _SAME_JOB)
_put_statuses: Final = _Put("status", StatusRow)
_put_leases: Final = _Put("lease", LeaseRow)
put_ends: Final = _Put("history", EndRow)
_put_documents: Final = _Put("document", DocumentRow)
_put_records: Final = _Put("record", RecordRow)
_put_events: Final = _Put("event", EventRow)
_drop_statuses: Final = _Drop("status")
_drop_leases: Final = _Drop("lease")
_drop_events: Final = _Drop("event", "job_seq")
_drop_entries: Final = _Drop("journal", "number")
_DROP_OF_JOB: Final = (_drop_events, _drop_leases, _drop_statuses, _Drop("history"), _Drop("job"))
_DROP_RECORD: Final = "DELETE FROM record WHERE kind = ? AND at = ? AND number = ?"

_PUT_ENTRY: Final = """INSERT OR REPLACE INTO journal (number, epoch, at, events, seq, tokens, low_water)
    SELECT ?, ?, ?, ?, ?, ?, ? FROM meta WHERE epoch = ?"""
_DROP_DOCUMENT: Final = "DELETE FROM document WHERE kind = ? AND id = ?"
_MARK: Final = """UPDATE meta SET number = ?, seq = ?, tokens = ?, low_water = ?, indexed = coalesce(?, indexed)
    WHERE epoch = ?"""


def put_jobs(connection: apsw.Connection, rows: Sequence[JobRow]) -> None:
    """Jobs are new, as a rule: to say what to do otherwise takes an eighth more time, so it is said when it happens."""
    try:
        _put_new_jobs(connection, rows)
    except apsw.ConstraintError:  # those before it are in: put once more, they replace themselves
        _put_same_jobs(connection, rows)


def put(connection: apsw.Connection, batch: Batch, epoch: int) -> bool:
    """Put a batch into the open transaction. False if the epoch is another one.

    Inside a write transaction nobody else can raise the epoch: what holds here holds at the commit.
    """
    if batch.jobs:
        put_jobs(connection, batch.jobs)
    if batch.leases:
        _put_leases(connection, batch.leases)
    if batch.leases_gone:
        _drop_leases(connection, batch.leases_gone)
    if batch.ends:
        put_ends(connection, batch.ends)
    if batch.statuses:
        _put_statuses(connection, batch.statuses)
    if batch.statuses_gone:
        _drop_statuses(connection, batch.statuses_gone)
    if batch.documents:
        _put_or_drop_documents(connection, batch.documents)
    if batch.records:
        _put_records(connection, batch.records)
    if batch.events:
        _put_events(connection, batch.events)
    if batch.gone is not None:
        _drop(connection, batch.gone)
    return _put_mark(connection, batch, epoch)


def _put_mark(connection: apsw.Connection, batch: Batch, epoch: int) -> bool:
    """Where the store stands after the batch: in its entry of the journal, if it leaves one, otherwise by itself."""
    stands = (batch.seq, batch.tokens, batch.low_water)
    if batch.journal:
        connection.execute(_PUT_ENTRY, (batch.number, batch.epoch, batch.at, batch.journal, *stands, epoch))
    if batch.indexed is not None or not batch.journal:
        connection.execute(_MARK, (batch.number, *stands, batch.indexed, epoch))
    return connection.changes() == 1


def _drop(connection: apsw.Connection, gone: Gone) -> None:
    for drop in _DROP_OF_JOB:
        drop(connection, gone.jobs)
    _drop_events(connection, gone.histories)
    _drop_entries(connection, gone.journal)
    connection.executemany(_DROP_RECORD, gone.records)


def _put_or_drop_documents(connection: apsw.Connection, documents: list[DocumentRow]) -> None:
    """One by one, in their order: they are few, and one batch may put and drop the same."""
    for document in documents:
        if document.body is None:
            connection.execute(_DROP_DOCUMENT, (document.kind, document.id))
        else:
            _put_documents(connection, [document])
