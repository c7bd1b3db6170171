"""What a new leader reads once: the live jobs, the last that ended, the documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.ports import DocumentRow, EndedJob, EndRow, JobRow, LeaseRow, LiveJob, StatusRow
from headgate.stores.postgres.connecting import Connection
from headgate.stores.postgres.tables import DOCUMENT, HISTORY, JOB, LEASE, STATUS

PAGE: Final = 10_000

_JOBS: Final = f"""
SELECT seq, id, created_at, spec FROM job
WHERE seq > %s AND NOT EXISTS (SELECT FROM history WHERE history.seq = job.seq) ORDER BY seq LIMIT {PAGE}
"""
_ENDS: Final = f"""
SELECT {JOB.select("job")}, {HISTORY.select("history")} FROM history JOIN job USING (seq)
ORDER BY ended_at DESC, history.seq DESC LIMIT %s
"""


def live_jobs(conn: Connection) -> Iterator[LiveJob]:
    """In order of submission, in pages: neither side has to hold all of them twice."""
    statuses = {row[0]: StatusRow(*row) for row in _all(conn, f"SELECT {STATUS.select()} FROM status")}
    leases = {row[0]: LeaseRow(*row) for row in _all(conn, f"SELECT {LEASE.select()} FROM lease")}
    after = _all(conn, "SELECT low_water FROM meta")[0][0] - 1
    while page := _all(conn, _JOBS, after):
        for row in page:
            yield LiveJob._make((*row, statuses.get(row[0]), leases.get(row[0])))
        after = page[-1][0]


def recent_ends(conn: Connection, limit: int) -> list[EndedJob]:
    """Oldest end first."""
    width = len(JOB.columns)
    rows = _all(conn, _ENDS, limit)
    return [EndedJob(JobRow(*row[:width]), EndRow(*row[width:])) for row in reversed(rows)]


def documents(conn: Connection) -> Iterator[DocumentRow]:
    """By kind and id."""
    rows = _all(conn, f'SELECT {DOCUMENT.select()} FROM document ORDER BY kind COLLATE "C", id COLLATE "C"')
    return iter([DocumentRow(*row) for row in rows])


def _all(conn: Connection, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return conn.execute(statement.encode(), parameters, binary=True).fetchall()
