"""How a batch becomes statements. Each kind of row has one prepared statement that is run for all of its rows."""

from __future__ import annotations

from typing import Final

import apsw

from headgate.ports import Batch, DocumentRow, EndRow, EventRow, JobRow, LeaseRow, RecordRow, StatusRow


def _replace(table: str, row_type: type[tuple[object, ...]]) -> str:
    columns = _fields(row_type)
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def _fields(row_type: type[tuple[object, ...]]) -> tuple[str, ...]:
    return tuple(row_type.__annotations__)


def _upsert_job() -> str:
    """Replace a job of the same number, but never one of the same id: that would lose an acknowledged job."""
    columns = _fields(JobRow)
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO job ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT (seq) DO UPDATE SET {changes}"


PUT_JOB: Final = _upsert_job()
_PUT_STATUS: Final = _replace("status", StatusRow)
_PUT_LEASE: Final = _replace("lease", LeaseRow)
_PUT_END: Final = _replace("history", EndRow)
_PUT_DOCUMENT: Final = _replace("document", DocumentRow)
_PUT_RECORD: Final = _replace("record", RecordRow)
_PUT_EVENT: Final = _replace("event", EventRow)
_PUT_JOURNAL: Final = "INSERT OR REPLACE INTO journal (number, epoch, at, events) VALUES (?, ?, ?, ?)"
_DROP_STATUS: Final = "DELETE FROM status WHERE seq = ?"
_DROP_LEASE: Final = "DELETE FROM lease WHERE seq = ?"
_DROP_DOCUMENT: Final = "DELETE FROM document WHERE kind = ? AND id = ?"
_MARK: Final = "UPDATE meta SET number = ?, seq = ?, tokens = ?, low_water = ?, indexed = coalesce(?, indexed)"


def put(connection: apsw.Connection, batch: Batch) -> None:
    """Put a batch into the open transaction: first what commits have most often."""
    many = connection.executemany
    if batch.jobs:
        many(PUT_JOB, batch.jobs)
    if batch.leases:
        many(_PUT_LEASE, batch.leases)
    if batch.leases_gone:
        many(_DROP_LEASE, [(seq,) for seq in batch.leases_gone])
    if batch.ends:
        many(_PUT_END, batch.ends)
    if batch.statuses:
        many(_PUT_STATUS, batch.statuses)
    if batch.statuses_gone:
        many(_DROP_STATUS, [(seq,) for seq in batch.statuses_gone])
    if batch.documents:
        _put_documents(connection, batch.documents)
    if batch.records:
        many(_PUT_RECORD, batch.records)
    if batch.events:
        many(_PUT_EVENT, batch.events)
    if batch.journal:
        connection.execute(_PUT_JOURNAL, (batch.number, batch.epoch, batch.at, batch.journal))
    connection.execute(_MARK, (batch.number, batch.seq, batch.tokens, batch.low_water, batch.indexed))


def _put_documents(connection: apsw.Connection, documents: list[DocumentRow]) -> None:
    for document in documents:
        if document.body is None:
            connection.execute(_DROP_DOCUMENT, (document.kind, document.id))
        else:
            connection.execute(_PUT_DOCUMENT, document)
