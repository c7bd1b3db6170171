"""Questions about jobs, live and ended, and about the logs. Each is one statement, so each sees one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, Final

from headgate.core.states import JobState
from headgate.ports import (
    EndRow,
    EventRow,
    JobQuery,
    JobRow,
    JobView,
    JournalRow,
    Key,
    LeaseRow,
    OldEnd,
    RecordRow,
    StatusRow,
)
from headgate.stores.postgres.readers import Readers
from headgate.stores.postgres.tables import EVENT, HISTORY, JOB, JOURNAL, LEASE, RECORD, STATUS, Table

PAGE: Final = 1_000

# An end counts more than a lease, a lease more than a status, a status more than the job as submitted.
_STATE: Final = """coalesce(history.state,
    CASE WHEN lease.seq IS NULL THEN NULL WHEN lease.started_at IS NULL THEN 'leased' ELSE 'running' END,
    status.state, job.state)"""
_CLASS: Final = "coalesce(status.job_class, job.job_class)"
_FROM: Final = """job LEFT JOIN status ON status.seq = job.seq LEFT JOIN lease ON lease.seq = job.seq
    LEFT JOIN history ON history.seq = job.seq"""
_PARTS: Final = (JOB, STATUS, LEASE, HISTORY)
_VIEW: Final = f"SELECT {_STATE}, {', '.join(part.select(part.name) for part in _PARTS)} FROM {_FROM}"
_COUNTS: Final = f"SELECT {_STATE}, {_CLASS}, count(*) FROM {_FROM} GROUP BY 1, 2"

Conditions = list[tuple[str, Any]]


def find_jobs(readers: Readers, query: JobQuery) -> list[JobView]:
    """A page of jobs."""
    conditions = _conditions(query)
    where = " AND ".join(condition for condition, _ in conditions) or "true"
    direction = "DESC" if query.order == "newest" else "ASC"
    statement = f"{_VIEW} WHERE {where} ORDER BY job.seq {direction} LIMIT %s"
    return [_view(row) for row in readers.ask(statement, [*(value for _, value in conditions), query.limit])]


def _conditions(query: JobQuery) -> Conditions:
    """The filters that were asked for. Texts are compared as they are: strpos knows no wildcards."""
    beyond = "job.seq < %s" if query.order == "newest" else "job.seq > %s"
    wanted: Conditions = [
        (f"{_STATE} = ANY(%s)", [str(state) for state in query.states] or None),
        (f"{_CLASS} = ANY(%s)", list(query.classes) or None),
        ("job.tenant = ANY(%s)", list(query.tenants) or None),
        ("job.type = ANY(%s)", list(query.types) or None),
        ("strpos(job.name, %s) > 0", query.name_contains),
        ("job.created_at >= %s", query.created_from),
        ("job.created_at < %s", query.created_to),
        ("history.ended_at >= %s", query.ended_from),
        ("history.ended_at < %s", query.ended_to),
        (beyond, query.after),
    ]
    return [(condition, value) for condition, value in wanted if value is not None]


def get_job(readers: Readers, job_id: str) -> JobView | None:
    """One job, live or ended."""
    rows = readers.ask(f"{_VIEW} WHERE job.id = %s", [job_id])
    return _view(rows[0]) if rows else None


def states_of(readers: Readers, job_ids: Iterable[str]) -> dict[str, JobState]:
    """The states of those jobs that exist."""
    statement = f"SELECT job.id, {_STATE} FROM {_FROM} WHERE job.id = ANY(%s)"
    return {job_id: JobState(state) for job_id, state in readers.ask(statement, [list(job_ids)])}


def find_keys(readers: Readers, keys: Iterable[Key]) -> dict[Key, JobRow]:
    """The last job of each tenant that was submitted with each key."""
    wanted = list(keys)
    statement = f"""SELECT {JOB.select("job")} FROM unnest(%s::text[], %s::text[]) AS wanted(tenant, key)
        JOIN job ON job.tenant = wanted.tenant AND job.key = wanted.key ORDER BY job.seq"""
    rows = readers.ask(statement, [[tenant for tenant, _ in wanted], [key for _, key in wanted]])
    return {(job.tenant, str(job.key)): job for job in (JobRow(*row) for row in rows)}


def counts(readers: Readers) -> dict[tuple[JobState, int], int]:
    """How many jobs there are by state and class."""
    return {(JobState(state), job_class): count for state, job_class, count in readers.ask(_COUNTS)}


def events_of(readers: Readers, job_id: str, after: int, limit: int) -> list[EventRow]:
    """A job's history, oldest first."""
    statement = f"""SELECT {EVENT.select("event")} FROM event JOIN job ON job.seq = event.job_seq
        WHERE job.id = %s AND number > %s ORDER BY number LIMIT %s"""
    return [EventRow(*row) for row in readers.ask(statement, [job_id, after, limit])]


def journal(readers: Readers, after: int) -> Iterator[JournalRow]:
    """Oldest first, in pages: a reader that dawdles holds no transaction open."""
    statement = f"SELECT {JOURNAL.select()} FROM journal WHERE number > %s ORDER BY number LIMIT {PAGE}"
    while page := readers.ask(statement, [after]):
        yield from (JournalRow(*row) for row in page)
        after = page[-1][0]


def entries(readers: Readers, since: int, until: int | None, after: int, limit: int) -> list[JournalRow]:
    """Entries of the journal in a range of time."""
    wanted: Conditions = [("number > %s", after), ("at >= %s", since), ("at < %s", until)]
    return [JournalRow(*row) for row in _ask(readers, JOURNAL, wanted, "number", limit)]


def records(
    readers: Readers, kind: str, since: int, until: int | None, key: str | None, limit: int, *, newest: bool
) -> list[RecordRow]:
    """Entries of a log, oldest or newest first."""
    wanted: Conditions = [("kind = %s", kind), ("at >= %s", since), ("at < %s", until), ("key = %s", key)]
    order = "at DESC, number DESC" if newest else "at, number"
    return [RecordRow(*row) for row in _ask(readers, RECORD, wanted, order, limit)]


def _ask(readers: Readers, table: Table, wanted: Conditions, order: str, limit: int) -> list[tuple[Any, ...]]:
    """The rows of a table that meet the conditions that have a value."""
    given = [(condition, value) for condition, value in wanted if value is not None]
    where = " AND ".join(condition for condition, _ in given)
    statement = f"SELECT {table.select()} FROM {table.name} WHERE {where} ORDER BY {order} LIMIT %s"
    return readers.ask(statement, [*(value for _, value in given), limit])


def old_ends(readers: Readers, before: int, after: tuple[int, int], limit: int) -> list[OldEnd]:
    """Jobs that ended before a time, oldest end first."""
    statement = """SELECT history.ended_at, history.seq, job.id, job.key IS NOT NULL,
            EXISTS (SELECT FROM event WHERE job_seq = history.seq) FROM history JOIN job USING (seq)
        WHERE ended_at < %s AND (ended_at, history.seq) > (%s, %s) ORDER BY ended_at, history.seq LIMIT %s"""
    return [OldEnd(*row) for row in readers.ask(statement, [before, *after, limit])]


def old_entries(readers: Readers, before: int, limit: int) -> list[int]:
    """The front of the journal, up to the first entry that has to stay."""
    statement = "SELECT number, at FROM journal WHERE number <= (SELECT indexed FROM meta) ORDER BY number LIMIT %s"
    return [number for number, _ in takewhile(lambda row: row[1] < before, readers.ask(statement, [limit]))]


def old_records(readers: Readers, kind: str, before: int, limit: int) -> list[tuple[int, int]]:
    """The oldest entries of a log."""
    statement = "SELECT at, number FROM record WHERE kind = %s AND at < %s ORDER BY at, number LIMIT %s"
    return [(at, number) for at, number in readers.ask(statement, [kind, before, limit])]


def _view(row: tuple[Any, ...]) -> JobView:
    cells = iter(row[1:])
    job, status, lease, end = ([next(cells) for _ in part.columns] for part in _PARTS)
    return JobView(
        job=JobRow(*job),
        state=JobState(row[0]),
        status=StatusRow(*status) if status[0] is not None else None,
        lease=LeaseRow(*lease) if lease[0] is not None else None,
        end=EndRow(*end) if end[0] is not None else None,
    )
