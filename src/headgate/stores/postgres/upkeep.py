"""Looking for rows that contradict each other."""

from __future__ import annotations

from typing import Final

from headgate.stores.postgres.readers import Readers

_PROBLEMS: Final = """
SELECT format('%%s of job %%s, which does not exist', what, seq) FROM (
    SELECT 'status' AS what, seq FROM status UNION ALL SELECT 'lease', seq FROM lease
    UNION ALL SELECT 'end', seq FROM history
) AS rows WHERE NOT EXISTS (SELECT FROM job WHERE job.seq = rows.seq)
UNION ALL SELECT format('job %%s has ended and has a lease', seq) FROM history JOIN lease USING (seq)
UNION ALL SELECT format('job %%s is live and below the low-water mark', seq) FROM job
    WHERE seq < (SELECT low_water FROM meta) AND NOT EXISTS (SELECT FROM history WHERE history.seq = job.seq)
UNION ALL SELECT 'the row that says where the store stands is missing' WHERE NOT EXISTS (SELECT FROM meta)
UNION ALL SELECT format('job %%s is newer than the last number given out, %%s', max(job.seq), meta.seq)
    FROM job, meta GROUP BY meta.seq HAVING max(job.seq) > meta.seq
UNION ALL SELECT format('the journal goes up to %%s, the store up to %%s', max(journal.number), meta.number)
    FROM journal, meta GROUP BY meta.number HAVING max(journal.number) > meta.number
UNION ALL SELECT format('the server runs with %%s = off: a power cut may lose or damage what was committed', name)
    FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'
"""


def check(readers: Readers) -> list[str]:
    """One sentence for each contradiction."""
    return [str(row[0]) for row in readers.ask(_PROBLEMS)]
