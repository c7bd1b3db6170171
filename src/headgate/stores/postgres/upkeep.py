"""Deleting what is old, and looking for rows that contradict each other."""

from __future__ import annotations

from typing import Any, Final

from headgate.ports import Compacted, Retention
from headgate.stores.postgres.leadership import Leadership
from headgate.stores.postgres.readers import Readers

CHUNK: Final = 5_000

# Locking the mark keeps a new leader out until the deletion is done, and an old one from beginning it.
_FENCE: Final = "WITH fence AS (SELECT FROM meta WHERE epoch = %s FOR UPDATE)"
_JOBS: Final = f"""{_FENCE}, old AS (
    SELECT seq FROM history WHERE ended_at < %s AND EXISTS (SELECT FROM fence) ORDER BY ended_at, seq LIMIT {CHUNK}
), events AS (DELETE FROM event USING old WHERE job_seq = seq),
statuses AS (DELETE FROM status USING old WHERE status.seq = old.seq),
leases AS (DELETE FROM lease USING old WHERE lease.seq = old.seq),
jobs AS (DELETE FROM job USING old WHERE job.seq = old.seq),
ends AS (DELETE FROM history USING old WHERE history.seq = old.seq)
SELECT (SELECT count(*) FROM fence), (SELECT count(*) FROM old)"""
# From the front only: a journal with a hole cannot be replayed.
_JOURNAL: Final = f"""{_FENCE}, old AS (
    DELETE FROM journal WHERE EXISTS (SELECT FROM fence) AND number <= (SELECT indexed FROM meta)
        AND number < coalesce((SELECT min(number) FROM journal WHERE at >= %s), 9223372036854775807)
    RETURNING 1
) SELECT (SELECT count(*) FROM fence), (SELECT count(*) FROM old)"""
_RECORDS: Final = f"""{_FENCE}, old AS (
    DELETE FROM record WHERE EXISTS (SELECT FROM fence) AND kind = %s AND at < %s RETURNING 1
) SELECT (SELECT count(*) FROM fence), (SELECT count(*) FROM old)"""

_PROBLEMS: Final = """
SELECT format('%%s of job %%s, which does not exist', what, seq) FROM (
    SELECT 'status' AS what, seq FROM status UNION ALL SELECT 'lease', seq FROM lease
    UNION ALL SELECT 'end', seq FROM history
) AS rows WHERE NOT EXISTS (SELECT FROM job WHERE job.seq = rows.seq)
UNION ALL SELECT format('job %%s has ended and has a lease', seq) FROM history JOIN lease USING (seq)
UNION ALL SELECT format('job %%s is newer than the last number given out, %%s', max(job.seq), meta.seq)
    FROM job, meta GROUP BY meta.seq HAVING max(job.seq) > meta.seq
UNION ALL SELECT format('the journal goes up to %%s, the store up to %%s', max(journal.number), meta.number)
    FROM journal, meta GROUP BY meta.number HAVING max(journal.number) > meta.number
UNION ALL SELECT format('the server runs with %%s = off: a power cut may lose or damage what was committed', name)
    FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'
"""


def compact(leadership: Leadership, now: int, retention: Retention) -> Compacted:
    """Delete what is older than its age, in bites that do not hold up the commits between them for long."""
    jobs = journal = 0
    if retention.jobs is not None:
        while bite := _delete(leadership, _JOBS, now - retention.jobs):
            jobs += bite
    if retention.journal is not None:
        journal = _delete(leadership, _JOURNAL, now - retention.journal)
    records = sum(_delete(leadership, _RECORDS, kind, now - age) for kind, age in retention.records.items())
    return Compacted(jobs, journal, records)


def _delete(leadership: Leadership, statement: str, *parameters: Any) -> int:
    row = leadership.connection.execute(statement.encode(), (leadership.epoch, *parameters)).fetchone()
    if row is None or row[0] == 0:
        raise leadership.step_down()
    return int(row[1])


def check(readers: Readers) -> list[str]:
    """One sentence for each contradiction."""
    return [str(row[0]) for row in readers.ask(_PROBLEMS)]
