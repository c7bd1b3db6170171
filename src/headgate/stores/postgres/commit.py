"""A commit as one statement: the fence moves the mark only for the right epoch, and all else happens only behind it.

Tables that a commit does not touch are left out, so there are a few shapes of the statement, each prepared once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from headgate.ports import Batch, Gone, JournalRow
from headgate.stores.postgres.arrays import pack_int
from headgate.stores.postgres.tables import (
    ALL,
    DOCUMENT,
    EVENT,
    HISTORY,
    HISTORY_OF,
    JOB,
    JOURNAL,
    LEASE,
    RECORD,
    STATUS,
    Table,
)

_FENCE = """WITH fence AS (
    UPDATE meta SET number = {}::bigint, seq = {}::bigint, tokens = {}::bigint, low_water = {}::bigint,
        indexed = coalesce({}::bigint, indexed), commits = commits + 1, heartbeat = clock_timestamp()
    WHERE epoch = {}::bigint AND commits = {}::bigint RETURNING 1
)"""
_DROPPED = (JOB, STATUS, LEASE, HISTORY, HISTORY_OF, DOCUMENT, RECORD, JOURNAL)
_BEHIND_FENCE = "EXISTS (SELECT FROM fence)"
_NOTIFY = "SELECT pg_notify({}::text, {}::text) FROM fence"


class Prepared(NamedTuple):
    """A statement with its parameters."""

    statement: bytes
    mark: tuple[int | None, ...]
    columns: list[bytes]

    def parameters(self, commits: int, channel: str) -> list[bytes | None]:
        """All of them in the binary format; the fence also wants to know how many commits there were before."""
        number = str(self.mark[0]).encode()
        return [*map(pack_int, self.mark), pack_int(commits), *self.columns, channel.encode(), number]


class Pending:
    """What was written and not sealed. Later batches replace what earlier ones said about the same row."""

    def __init__(self) -> None:
        self._rows: dict[Table, dict[Any, Sequence[Any]]] = {table: {} for table in ALL}
        self._gone: dict[Table, dict[Any, None]] = {table: {} for table in _DROPPED}
        self._last: Batch | None = None
        self._indexed: int | None = None

    def __bool__(self) -> bool:
        return self._last is not None

    def add(self, batch: Batch) -> None:
        """Put a batch on top."""
        self._put(JOB, batch.jobs)
        self._put(STATUS, batch.statuses)
        self._put(LEASE, batch.leases)
        self._put(HISTORY, batch.ends)
        self._drop(STATUS, batch.statuses_gone)
        self._drop(LEASE, batch.leases_gone)
        for document in batch.documents:
            if document.body is None:
                self._drop(DOCUMENT, [document[:2]])
            else:
                self._put(DOCUMENT, [document])
        self._put(RECORD, batch.records)
        self._put(EVENT, batch.events)
        if batch.journal:
            self._put(JOURNAL, [JournalRow(batch.number, batch.epoch, batch.at, batch.journal)])
        if batch.gone is not None:
            self._forget(batch.gone)
        self._indexed = self._indexed if batch.indexed is None else batch.indexed
        self._last = batch

    def _put(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        known, gone, key_of = self._rows[table], self._gone.get(table), table.key_of
        for row in rows:
            key = key_of(row)
            known[key] = row
            if gone:
                gone.pop(key, None)

    def _drop(self, table: Table, keys: Iterable[Any]) -> None:
        known, gone = self._rows.get(table, {}), self._gone[table]
        for key in keys:
            known.pop(key, None)
            gone[key] = None

    def _forget(self, gone: Gone) -> None:
        for table in (JOB, STATUS, LEASE, HISTORY, HISTORY_OF):
            self._drop(table, gone.jobs)
        self._drop(HISTORY_OF, gone.histories)
        self._drop(JOURNAL, gone.journal)
        self._drop(RECORD, gone.records)

    def prepare(self) -> Prepared:
        """Pack all of it."""
        assert self._last is not None  # noqa: S101  the store asks only after a write
        batch = self._last
        filled = [table for table in ALL if self._rows[table]]
        emptied = [table for table in self._gone if self._gone[table]]
        columns = [column for table in filled for column in table.pack(self._rows[table].values())]
        columns += [column for table in emptied for column in table.pack_keys(self._gone[table])]
        mark = (batch.number, batch.seq, batch.tokens, batch.low_water, self._indexed, batch.epoch)
        return Prepared(_statement(tuple(filled), tuple(emptied)), mark, columns)


@cache
def _statement(filled: tuple[Table, ...], emptied: tuple[Table, ...]) -> bytes:
    parts = [_FENCE]
    parts += [f"put_{table.name} AS ({_upsert(table)})" for table in filled]
    parts += [f"drop_{table.name} AS ({_delete(table)})" for table in emptied]
    text = ",\n".join(parts) + "\n" + _NOTIFY
    return text.format(*(f"${number}" for number in range(1, text.count("{}") + 1))).encode()


def _upsert(table: Table) -> str:
    arrays = ", ".join(f"{{}}::{kind}[]" for kind in table.types)
    columns, keys = table.select(), ", ".join(table.key)
    changes = ", ".join(f"{column} = excluded.{column}" for column in table.columns[table.key_length :])
    return (
        f"INSERT INTO {table.name} ({columns}) SELECT new.* FROM unnest({arrays}) AS new({columns}) "
        f"WHERE {_BEHIND_FENCE} ON CONFLICT ({keys}) DO UPDATE SET {changes}"
    )


def _delete(table: Table) -> str:
    arrays = ", ".join(f"{{}}::{kind}[]" for kind in table.types[: table.key_length])
    same = " AND ".join(f"{table.name}.{column} = gone.{column}" for column in table.key)
    return (
        f"DELETE FROM {table.name} USING unnest({arrays}) AS gone({', '.join(table.key)}) "
        f"WHERE {same} AND {_BEHIND_FENCE}"
    )
