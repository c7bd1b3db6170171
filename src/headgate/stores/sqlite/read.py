"""Questions to the tables, on a connection that is handed in. Texts from outside are only ever bound, never spliced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import Any, Final, TypeVar

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
    LeaseRow,
    LiveJob,
    Mark,
    RecordRow,
    StatusRow,
)

Row = TypeVar("Row", StatusRow, LeaseRow, EndRow)


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

_LIVE: Final = f"""SELECT {_JOB}, {_STATUS}, {_LEASE} FROM job j LEFT JOIN lease l ON l.seq = j.seq {_BESIDES}
    WHERE j.seq >= (SELECT low_water FROM meta) AND NOT EXISTS (SELECT 1 FROM history e WHERE e.seq = j.seq)
    ORDER BY j.seq"""
_RECENT: Final = f"""SELECT {_JOB}, {_END} FROM history e CROSS JOIN job j ON j.seq = e.seq
    ORDER BY e.ended_at DESC, e.seq DESC LIMIT ?"""
_STATES: Final = f"""SELECT j.id, {_STATE} FROM json_each(?) wanted CROSS JOIN job j ON j.id = wanted.value
    LEFT JOIN history e ON e.seq = j.seq LEFT JOIN lease l ON l.seq = j.seq {_BESIDES}"""
_COUNTS: Final = f"SELECT {_STATE} AS state, {_CLASS} AS job_class, count(*) FROM {_FROM_ALL} GROUP BY 1, 2"
_KEY: Final = f"SELECT {_JOB} FROM job j WHERE j.tenant = ? AND j.key = ? ORDER BY j.seq DESC LIMIT 1"
_EVENTS: Final = f"""SELECT {_columns("v", EventRow)} FROM job j CROSS JOIN event v ON v.job_seq = j.seq
    WHERE j.id = ? AND v.number > ? ORDER BY v.number LIMIT ?"""
_JOURNAL: Final = "SELECT number, epoch, at, events FROM journal WHERE number > ? ORDER BY number LIMIT ?"
_RECORDS: Final = """SELECT kind, at, number, key, body FROM record WHERE kind = ?1 AND at >= ?2
    AND (?3 IS NULL OR at < ?3) AND (?4 IS NULL OR key = ?4) ORDER BY at, number LIMIT ?5"""


def mark(connection: apsw.Connection) -> Mark:
    """Where the store stands."""
    rows = connection.execute("SELECT epoch, number, seq, tokens, indexed, low_water FROM meta")
    return Mark(*next(rows))


def live_jobs(connection: apsw.Connection) -> Iterator[LiveJob]:
    """All jobs that have not ended, in order of submission."""
    make = JobRow._make
    for row in connection.execute(_LIVE):
        status = StatusRow._make(row[_STATUS_AT:_LEASE_AT]) if row[_STATUS_AT] is not None else None
        lease = LeaseRow._make(row[_LEASE_AT:]) if row[_LEASE_AT] is not None else None
        yield LiveJob(make(row[:_STATUS_AT]), status, lease)


def recent_ends(connection: apsw.Connection, limit: int) -> list[EndedJob]:
    """The last jobs that ended, oldest end first."""
    rows = connection.execute(_RECENT, (limit,)).fetchall()
    return [EndedJob(JobRow._make(row[:_STATUS_AT]), EndRow._make(row[_STATUS_AT:])) for row in reversed(rows)]


def documents(connection: apsw.Connection) -> list[DocumentRow]:
    """All documents."""
    return list(starmap(DocumentRow, connection.execute("SELECT kind, id, body FROM document")))


def _view(row: tuple[Any, ...]) -> JobView:
    status = StatusRow._make(row[_STATUS_AT:_LEASE_AT]) if row[_STATUS_AT] is not None else None
    lease = LeaseRow._make(row[_LEASE_AT:_END_AT]) if row[_LEASE_AT] is not None else None
    end = EndRow._make(row[_END_AT:-1]) if row[_END_AT] is not None else None
    return JobView(JobRow._make(row[:_STATUS_AT]), JobState(row[-1]), status, lease, end)


def find_jobs(connection: apsw.Connection, query: JobQuery) -> list[JobView]:
    """A page of jobs."""
    conditions, values = _conditions(query)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    direction = "DESC" if query.order == "newest" else "ASC"
    table = _FROM_ALL
    if query.ended_from is not None or query.ended_to is not None or (query.states and set(query.states) <= TERMINAL):
        table = _FROM_ENDED
    elif query.states and set(query.states) <= LEASED:
        table = _FROM_LEASED
    # Every part of the text is ours: what the caller said is in `values`.
    sql = f"SELECT {_VIEW}, {_STATE} FROM {table} {where} ORDER BY j.seq {direction} LIMIT ?"
    return [_view(row) for row in connection.execute(sql, (*values, query.limit))]


def _conditions(query: JobQuery) -> tuple[list[str], list[Any]]:
    """The filters of a query that are set, and their values."""
    cursor = "j.seq < ?" if query.order == "newest" else "j.seq > ?"
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
        (cursor, query.after),
    ]
    wanted = [(condition, value) for condition, value in filters if value is not None]
    conditions = [condition for condition, _ in wanted]
    if query.states and not TERMINAL.intersection(query.states):
        conditions += ["e.seq IS NULL", "j.seq >= (SELECT low_water FROM meta)"]
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
    return {job_id: JobState(state) for job_id, state in rows}


def find_key(connection: apsw.Connection, tenant: str, key: str) -> JobRow | None:
    """The job that was submitted with an idempotency key."""
    return next(starmap(JobRow, connection.execute(_KEY, (tenant, key))), None)


def counts(connection: apsw.Connection) -> dict[tuple[JobState, int], int]:
    """How many jobs there are by state and class."""
    return {(JobState(state), job_class): count for state, job_class, count in connection.execute(_COUNTS)}


def events_of(connection: apsw.Connection, job_id: str, after: int, limit: int) -> list[EventRow]:
    """A job's history, oldest first."""
    return list(starmap(EventRow, connection.execute(_EVENTS, (job_id, after, limit))))


def journal_page(connection: apsw.Connection, after: int, limit: int) -> list[JournalRow]:
    """Some of the journal after a commit number."""
    return list(starmap(JournalRow, connection.execute(_JOURNAL, (after, limit))))


def records(
    connection: apsw.Connection, kind: str, since: int, until: int | None, key: str | None, limit: int
) -> list[RecordRow]:
    """Entries of a log in a range of time, oldest first."""
    return list(starmap(RecordRow, connection.execute(_RECORDS, (kind, since, until, key, limit))))
