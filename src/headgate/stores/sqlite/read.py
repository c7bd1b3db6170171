"""Questions to the tables, on a connection that is handed in. Texts from outside are only ever bound, never spliced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import starmap, takewhile
from math import inf
from typing import Any, Final, Generic, TypeVar

import apsw
import msgspec

from headgate.core.states import LEASED, TERMINAL, JobState
from headgate.ports import (
    DocumentRow,
    EndedJob,
    EndRow,
    EventRow,
    JobQuery,
    JobRow,
    JobView,
    JournalRow,
    Key,
    LeaseRow,
    LiveJob,
    Mark,
    OldEnd,
    RecordRow,
    StatusRow,
    StoreDamaged,
)
from headgate.stores.sqlite.schema import MARK

Row = TypeVar("Row", bound=StatusRow | LeaseRow)


def _columns(alias: str, row_type: type[tuple[object, ...]]) -> str:
    return ", ".join(f"{alias}.{field}" for field in row_type.__annotations__)


_JOB, _STATUS, _LEASE, _END = (
    _columns("j", JobRow),
    _columns("s", StatusRow),
    _columns("l", LeaseRow),
    _columns("e", EndRow),
)
_STATUS_AT = len(JobRow._fields)
_LEASE_AT = _STATUS_AT + len(StatusRow._fields)
_END_AT = _LEASE_AT + len(LeaseRow._fields)

_STATE: Final = """CASE WHEN e.seq IS NOT NULL THEN e.state
    WHEN l.seq IS NULL THEN coalesce(s.state, j.state)
    WHEN l.started_at IS NULL THEN 'leased' ELSE 'running' END"""
_CLASS: Final = "coalesce(s.job_class, j.job_class)"
_BESIDES: Final = "LEFT JOIN status s ON s.seq = j.seq"
_FROM_ALL: Final = "job j LEFT JOIN history e ON e.seq = j.seq LEFT JOIN lease l ON l.seq = j.seq " + _BESIDES
# CROSS JOIN makes the left table the outer one: few rows lead to many, not the other way round.
_FROM_ENDED: Final = "history e CROSS JOIN job j ON j.seq = e.seq LEFT JOIN lease l ON l.seq = j.seq " + _BESIDES
_FROM_LEASED: Final = "lease l CROSS JOIN job j ON j.seq = l.seq LEFT JOIN history e ON e.seq = j.seq " + _BESIDES
_VIEW: Final = f"{_JOB}, {_STATUS}, {_LEASE}, {_END}"

_LIVE: Final = """SELECT j.seq, j.id, j.created_at, j.spec, NULL, NULL FROM job j
    WHERE j.seq >= (SELECT low_water FROM meta) AND NOT EXISTS (SELECT 1 FROM history e WHERE e.seq = j.seq)
    ORDER BY j.seq"""
_STATUSES: Final = f"SELECT {_STATUS} FROM status s WHERE s.seq >= (SELECT low_water FROM meta) ORDER BY s.seq"
_LEASES: Final = f"SELECT {_LEASE} FROM lease l WHERE l.seq >= (SELECT low_water FROM meta) ORDER BY l.seq"
_RECENT: Final = f"""SELECT {_JOB}, {_END} FROM history e CROSS JOIN job j ON j.seq = e.seq
    ORDER BY e.ended_at DESC, e.seq DESC LIMIT ?"""
_STATES: Final = f"""SELECT j.id, {_STATE} FROM json_each(?) wanted CROSS JOIN job j ON j.id = wanted.value
    LEFT JOIN history e ON e.seq = j.seq LEFT JOIN lease l ON l.seq = j.seq {_BESIDES}"""
_COUNTS: Final = f"SELECT {_STATE} AS state, {_CLASS} AS job_class, count(*) FROM {_FROM_ALL} GROUP BY 1, 2"
_KEYS: Final = f"""SELECT {_JOB} FROM json_each(?) wanted CROSS JOIN job j
    ON j.tenant = wanted.value ->> 0 AND j.key = wanted.value ->> 1 ORDER BY j.seq"""
_EVENTS: Final = f"""SELECT {_columns("v", EventRow)} FROM job j CROSS JOIN event v ON v.job_seq = j.seq
    WHERE j.id = ? AND v.number > ? ORDER BY v.number LIMIT ?"""
_JOURNAL: Final = "SELECT number, epoch, at, events FROM journal WHERE number > ? ORDER BY number LIMIT ?"
_ENTRIES: Final = """SELECT number, epoch, at, events FROM journal WHERE number > ?1 AND at >= ?2
    AND (?3 IS NULL OR at < ?3) ORDER BY number LIMIT ?4"""
_RECORDS: Final = """SELECT kind, at, number, key, body FROM record WHERE kind = ?1 AND at >= ?2
    AND (?3 IS NULL OR at < ?3) AND (?4 IS NULL OR key = ?4) ORDER BY at, number LIMIT ?5"""
_NEWEST_RECORDS: Final = _RECORDS.replace("ORDER BY at, number", "ORDER BY at DESC, number DESC")

_OLD_ENDS: Final = """SELECT e.ended_at, e.seq, j.id, j.key IS NOT NULL,
    EXISTS (SELECT 1 FROM event v WHERE v.job_seq = e.seq) FROM history e CROSS JOIN job j ON j.seq = e.seq
    WHERE e.ended_at < ?1 AND e.ended_at >= ?2 AND (e.ended_at > ?2 OR e.seq > ?3)
    ORDER BY e.ended_at, e.seq LIMIT ?4"""
_OLD_ENTRIES: Final = """SELECT number, at FROM journal WHERE number <= (SELECT indexed FROM meta)
    ORDER BY number LIMIT ?"""
_OLD_RECORDS: Final = "SELECT at, number FROM record WHERE kind = ? AND at < ? ORDER BY at, number LIMIT ?"


def mark(connection: apsw.Connection) -> Mark:
    """Where the store stands."""
    row = next(connection.execute(MARK), None)
    if row is None:
        raise StoreDamaged("the database is damaged: the row that says where it stands is missing")
    return Mark(*row)


def live_jobs(connection: apsw.Connection) -> Iterator[LiveJob]:
    """All jobs that have not ended, in order of submission.

    Three walks side by side rather than one join: most jobs have neither a status nor a lease, and a joined row
    would carry the empty columns of both. So a row has the shape of a `LiveJob` already.
    """
    statuses = _Walk(map(StatusRow._make, connection.execute(_STATUSES)))
    leases = _Walk(map(LeaseRow._make, connection.execute(_LEASES)))
    alone_until = min(statuses.next_seq, leases.next_seq)
    rows = connection.execute(_LIVE)
    while alone_until < inf and (row := next(rows, None)) is not None:
        seq = row[0]
        if seq < alone_until:
            yield _as_it_is(row)
        else:
            yield LiveJob._make((*row[:4], statuses.at(seq), leases.at(seq)))
            alone_until = min(statuses.next_seq, leases.next_seq)
    yield from map(_as_it_is, rows)  # those that nobody has touched: most, and the last ones


_as_it_is: Final = partial(tuple.__new__, LiveJob)
"""What the constructor of a named tuple comes to, without a call in Python: it is made a million times."""


class _Walk(Generic[Row]):
    """Rows in order of their submission number, asked for by rising numbers."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self._row = next(rows, None)
        self.next_seq: float = inf if self._row is None else self._row.seq

    def at(self, seq: int) -> Row | None:
        """The row of that number, if there is one."""
        while self.next_seq < seq:
            self._step()
        if self.next_seq > seq:
            return None
        found = self._row
        self._step()
        return found

    def _step(self) -> None:
        self._row = next(self._rows, None)
        self.next_seq = inf if self._row is None else self._row.seq


def recent_ends(connection: apsw.Connection, limit: int) -> list[EndedJob]:
    """The last jobs that ended, oldest end first."""
    rows = connection.execute(_RECENT, (limit,)).fetchall()
    return [EndedJob(JobRow._make(row[:_STATUS_AT]), EndRow._make(row[_STATUS_AT:])) for row in reversed(rows)]


def documents(connection: apsw.Connection) -> list[DocumentRow]:
    """All documents."""
    return list(starmap(DocumentRow, connection.execute("SELECT kind, id, body FROM document")))


def _state(text: str) -> JobState:
    try:
        return JobState(text)
    except ValueError as error:
        raise StoreDamaged(f"the database is damaged: {text!r} is not a state of a job") from error


def _view(row: tuple[Any, ...]) -> JobView:
    status = StatusRow._make(row[_STATUS_AT:_LEASE_AT]) if row[_STATUS_AT] is not None else None
    lease = LeaseRow._make(row[_LEASE_AT:_END_AT]) if row[_LEASE_AT] is not None else None
    end = EndRow._make(row[_END_AT:-1]) if row[_END_AT] is not None else None
    return JobView(JobRow._make(row[:_STATUS_AT]), _state(row[-1]), status, lease, end)


def find_jobs(connection: apsw.Connection, query: JobQuery) -> list[JobView]:
    """A page of jobs."""
    table, seq = _source(query)
    conditions, values = _conditions(query, seq)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    direction = "DESC" if query.order == "newest" else "ASC"
    # Every part of the text is ours: what the caller said is in `values`.
    sql = f"SELECT {_VIEW}, {_STATE} FROM {table} {where} ORDER BY {seq} {direction} LIMIT ?"
    return [_view(row) for row in connection.execute(sql, (*values, query.limit))]


def _source(query: JobQuery) -> tuple[str, str]:
    """Which table to walk through, and its column with the submission number."""
    states = set(query.states)
    if query.ended_from is not None or query.ended_to is not None or (states and states <= TERMINAL):
        return _FROM_ENDED, "e.seq"
    if states and states <= LEASED:
        return _FROM_LEASED, "l.seq"
    return _FROM_ALL, "j.seq"


def _conditions(query: JobQuery, seq: str) -> tuple[list[str], list[Any]]:
    """The filters of a query that are set, and their values."""
    filters: list[tuple[str, Any]] = [
        (f"{_STATE} IN (SELECT value FROM json_each(?))", _list(query.states)),
        (f"{_CLASS} IN (SELECT value FROM json_each(?))", _list(query.classes)),
        ("j.tenant IN (SELECT value FROM json_each(?))", _list(query.tenants)),
        ("j.type IN (SELECT value FROM json_each(?))", _list(query.types)),
        ("instr(j.name, ?) > 0", query.name_contains or None),
        ("j.created_at >= ?", query.created_from),
        ("j.created_at < ?", query.created_to),
        ("e.ended_at >= ?", query.ended_from),
        ("e.ended_at < ?", query.ended_to),
        (f"{seq} {'<' if query.order == 'newest' else '>'} ?", query.after),
    ]
    wanted = [(condition, value) for condition, value in filters if value is not None]
    conditions = [condition for condition, _ in wanted]
    if query.states and not TERMINAL.intersection(query.states):
        conditions += ["e.seq IS NULL", f"{seq} >= (SELECT low_water FROM meta)"]
    return conditions, [value for _, value in wanted]


def _list(values: Iterable[object]) -> str | None:
    """Any number of values as one bound text; none where there are none."""
    chosen = list(values)
    return msgspec.json.encode(chosen).decode() if chosen else None


def get_job(connection: apsw.Connection, job_id: str) -> JobView | None:
    """One job, live or ended."""
    rows = connection.execute(f"SELECT {_VIEW}, {_STATE} FROM {_FROM_ALL} WHERE j.id = ?", (job_id,))
    return next(map(_view, rows), None)


def states_of(connection: apsw.Connection, job_ids: Iterable[str]) -> dict[str, JobState]:
    """The states of those jobs that exist."""
    rows = connection.execute(_STATES, (_list(job_ids) or "[]",))
    return {job_id: _state(state) for job_id, state in rows}


def find_keys(connection: apsw.Connection, keys: Iterable[Key]) -> dict[Key, JobRow]:
    """The jobs that were submitted with idempotency keys."""
    rows = connection.execute(_KEYS, (_list(keys) or "[]",))
    return {(str(row.tenant), str(row.key)): row for row in starmap(JobRow, rows)}


def counts(connection: apsw.Connection) -> dict[tuple[JobState, int], int]:
    """How many jobs there are by state and class."""
    return {(_state(state), job_class): count for state, job_class, count in connection.execute(_COUNTS)}


def events_of(connection: apsw.Connection, job_id: str, after: int, limit: int) -> list[EventRow]:
    """A job's history, oldest first."""
    return list(starmap(EventRow, connection.execute(_EVENTS, (job_id, after, limit))))


def journal_page(connection: apsw.Connection, after: int, limit: int) -> list[JournalRow]:
    """Some of the journal after a commit number."""
    return list(starmap(JournalRow, connection.execute(_JOURNAL, (after, limit))))


def entries(connection: apsw.Connection, since: int, until: int | None, after: int, limit: int) -> list[JournalRow]:
    """Entries of the journal in a range of time."""
    return list(starmap(JournalRow, connection.execute(_ENTRIES, (after, since, until, limit))))


def records(
    connection: apsw.Connection, kind: str, since: int, until: int | None, key: str | None, limit: int, *, newest: bool
) -> list[RecordRow]:
    """Entries of a log in a range of time, oldest or newest first."""
    statement = _NEWEST_RECORDS if newest else _RECORDS
    return list(starmap(RecordRow, connection.execute(statement, (kind, since, until, key, limit))))


def old_ends(connection: apsw.Connection, before: int, after: tuple[int, int], limit: int) -> list[OldEnd]:
    """Jobs that ended before a time, oldest end first."""
    rows = connection.execute(_OLD_ENDS, (before, *after, limit))
    return [OldEnd(at, seq, job_id, bool(keyed), bool(history)) for at, seq, job_id, keyed, history in rows]


def old_entries(connection: apsw.Connection, before: int, limit: int) -> list[int]:
    """The front of the journal, up to the first entry that has to stay."""
    rows = connection.execute(_OLD_ENTRIES, (limit,))
    return [number for number, _ in takewhile(lambda row: row[1] < before, rows)]


def old_records(connection: apsw.Connection, kind: str, before: int, limit: int) -> list[tuple[int, int]]:
    """The oldest entries of a log."""
    return [(at, number) for at, number in connection.execute(_OLD_RECORDS, (kind, before, limit))]
