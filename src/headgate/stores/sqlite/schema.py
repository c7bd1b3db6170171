"""The tables, version by version. A step that was released never changes; a new version is a new step at the end.

`job` rows never change. What may change about a job stands in small rows beside it, keyed by its submission number:
`status` (retried, patched, unblocked), `lease` (held by a worker) and `history` (ended). The state of a job follows
from which of them exist. No index but the primary keys, the job's id and those of version 2 is kept up while jobs run.
"""

from __future__ import annotations

from typing import Final

import apsw

from headgate.ports import StoreDamaged, StoreTooNew

APPLICATION_ID: Final = 0x48644774
"""`HdGt`: marks the file as ours."""

_VERSION_1 = """
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    indexed INTEGER NOT NULL,
    low_water INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 0, 0, 0, 0);

CREATE TABLE job (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    tenant TEXT NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    priority TEXT NOT NULL,
    job_class INTEGER NOT NULL,
    key TEXT,
    retry_of TEXT,
    spec BLOB NOT NULL
) STRICT;

CREATE TABLE status (
    seq INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    not_before INTEGER,
    queued_at INTEGER NOT NULL,
    job_class INTEGER NOT NULL,
    kind BLOB,
    lease_id TEXT,
    token INTEGER,
    verb TEXT,
    digest BLOB
) STRICT;

CREATE TABLE lease (
    seq INTEGER PRIMARY KEY,
    lease_id TEXT NOT NULL,
    token INTEGER NOT NULL,
    worker_id TEXT,
    pool_id TEXT,
    granted_at INTEGER NOT NULL,
    started_at INTEGER,
    ttl INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    fence_at INTEGER,
    for_job TEXT
) STRICT;

CREATE TABLE history (
    seq INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    started_at INTEGER,
    worker_id TEXT,
    lease_id TEXT,
    token INTEGER,
    verb TEXT,
    digest BLOB,
    error BLOB,
    result BLOB
) STRICT;

CREATE TABLE document (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, at, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    job_seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job_seq, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    number INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    events BLOB NOT NULL
) STRICT;
"""

# Keys are rare, so their index is partial. Ends come in order of time, so theirs only ever grows at its far edge: it
# costs a few tenths of a microsecond a job, and saves recovery and retention a walk through the whole history.
_VERSION_2 = """
CREATE INDEX job_by_key ON job (tenant, key) WHERE key IS NOT NULL;
CREATE INDEX history_by_end ON history (ended_at);
"""

# Where the store stands goes with the entry of the journal, which is written anyway: the row of `meta` would be one
# more page of each commit. It is written by commits that leave no entry, and by those that fill histories.
_VERSION_3 = """
ALTER TABLE journal ADD COLUMN seq INTEGER;
ALTER TABLE journal ADD COLUMN tokens INTEGER;
ALTER TABLE journal ADD COLUMN low_water INTEGER;
"""

# No view of the file: one among its tables can make SQLite's integrity check a partial one, without a word.
MARK: Final = """SELECT m.epoch, coalesce(j.number, m.number) AS number, coalesce(j.seq, m.seq) AS seq,
    coalesce(j.tokens, m.tokens) AS tokens, m.indexed, coalesce(j.low_water, m.low_water) AS low_water
    FROM meta m LEFT JOIN (SELECT * FROM journal ORDER BY number DESC LIMIT 1) j ON j.number > m.number"""

_COLUMNS: Final = """SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
    WHERE m.type = 'table' ORDER BY m.rowid, c.cid"""
STEPS: Final[tuple[str, ...]] = (_VERSION_1, _VERSION_2, _VERSION_3)
VERSION: Final = len(STEPS)
_MARKED: Final = 3
"""The first version whose journal says where the store stands."""


def version_of(connection: apsw.Connection) -> int:
    """The version of the tables in a file; 0 where there are none."""
    return int(connection.pragma("user_version"))


def refuse_newer(connection: apsw.Connection, name: str) -> None:
    """Raise `StoreTooNew` for a file that a later Headgate has written, `StoreDamaged` for one of no version."""
    found = version_of(connection)
    if found < 1:
        raise StoreDamaged(f"{name}: the database is damaged: it has schema version {found}")
    if found > VERSION:
        raise StoreTooNew(f"{name} has schema version {found}, this Headgate knows up to {VERSION}: use a newer one")


def missing_from(connection: apsw.Connection) -> str | None:
    """The first table or column of the file's version that is not there."""
    found = set(connection.execute(_COLUMNS))
    pattern = apsw.Connection(":memory:")
    try:
        migrate(pattern, version_of(connection))
        lost = [column for column in pattern.execute(_COLUMNS) if column not in found]
    finally:
        pattern.close()
    return f"column {lost[0][1]} of table {lost[0][0]} is missing" if lost else None


def show_mark(connection: apsw.Connection) -> None:
    """Let this connection see in `mark` where the store stands, whatever the version of the file."""
    select = MARK if version_of(connection) >= _MARKED else "SELECT * FROM meta"
    connection.execute(f"CREATE TEMP VIEW IF NOT EXISTS mark AS {select}")


def migrate(connection: apsw.Connection, to: int = VERSION) -> None:
    """Bring the tables to a version, one committed step at a time."""
    for version in range(version_of(connection) + 1, to + 1):
        with connection:
            connection.execute(STEPS[version - 1])
            connection.pragma("user_version", version)
