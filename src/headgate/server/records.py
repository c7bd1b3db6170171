"""Pages of a log: entries after a number, in order."""

from __future__ import annotations

from headgate.ports import RecordRow, Store

_STEP = 5_000


def read_after(store: Store, kind: str, key: str | None, after: int, limit: int) -> list[RecordRow]:
    """The entries of a log that come after a number, oldest first."""
    found: list[RecordRow] = []
    since = 0
    while True:
        page = store.records(kind, since, None, key, _STEP)
        seen = found[-1].number if found else after
        found += [row for row in page if row.number > seen]
        if len(found) >= limit or len(page) < _STEP or page[-1].at == since:
            return found[:limit]
        since = page[-1].at
