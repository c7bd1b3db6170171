"""The schema and its migrations: forward only, each in the list for ever, all of them in one transaction."""

from __future__ import annotations

from typing import Final

from headgate.ports import StoreDamaged, StoreTooNew
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.connecting import Connection

# `meta` is one row that every commit replaces. While somebody's long transaction keeps the old versions from being
# cleared away, only an index on a column that always changes finds the newest without reading all the others.
# `lease` and `status` are small and change all the time: without early vacuums their dead rows outnumber the living.
_FIRST: Final = """
CREATE TABLE meta (
    epoch bigint NOT NULL,
    owner text NOT NULL,
    heartbeat timestamptz NOT NULL,
    commits bigint PRIMARY KEY,
    number bigint NOT NULL,
    seq bigint NOT NULL,
    tokens bigint NOT NULL,
    indexed bigint NOT NULL,
    low_water bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
INSERT INTO meta VALUES (0, '', now(), 0, 0, 0, 0, 0, 0);

CREATE TABLE leadership (
    epoch bigint PRIMARY KEY,
    owner text NOT NULL,
    since timestamptz NOT NULL,
    commits bigint NOT NULL
);

CREATE TABLE job (
    seq bigint PRIMARY KEY,
    id text NOT NULL,
    created_at bigint NOT NULL,
    state text NOT NULL,
    tenant text NOT NULL,
    type text NOT NULL,
    name text NOT NULL,
    priority text NOT NULL,
    job_class integer NOT NULL,
    key text,
    retry_of text,
    spec bytea NOT NULL
);
CREATE UNIQUE INDEX job_id ON job (id);
CREATE INDEX job_key ON job (tenant, key) WHERE key IS NOT NULL;

CREATE TABLE status (
    seq bigint PRIMARY KEY,
    state text NOT NULL,
    attempt integer NOT NULL,
    not_before bigint,
    queued_at bigint NOT NULL,
    job_class integer NOT NULL,
    kind bytea,
    lease_id text,
    token bigint,
    verb text,
    digest bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE TABLE lease (
    seq bigint PRIMARY KEY,
    lease_id text NOT NULL,
    token bigint NOT NULL,
    worker_id text,
    pool_id text,
    granted_at bigint NOT NULL,
    started_at bigint,
    ttl bigint NOT NULL,
    attempt integer NOT NULL,
    fence_at bigint,
    for_job text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE TABLE history (
    seq bigint PRIMARY KEY,
    state text NOT NULL,
    ended_at bigint NOT NULL,
    attempt integer NOT NULL,
    started_at bigint,
    worker_id text,
    lease_id text,
    token bigint,
    verb text,
    digest bytea,
    error bytea,
    result bytea
);
CREATE INDEX history_ended_at ON history (ended_at, seq);

CREATE TABLE document (
    kind text NOT NULL,
    id text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE TABLE record (
    kind text NOT NULL,
    at bigint NOT NULL,
    number bigint NOT NULL,
    key text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (kind, at, number)
);

CREATE TABLE event (
    job_seq bigint NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    type text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (job_seq, number)
);

CREATE TABLE journal (
    number bigint PRIMARY KEY,
    epoch bigint NOT NULL,
    at bigint NOT NULL,
    events bytea NOT NULL
);
"""

MIGRATIONS: Final[tuple[str, ...]] = (_FIRST,)
LATEST: Final = len(MIGRATIONS)


def version_of(conn: Connection) -> int:
    """The version of the tables that are there; 0 where there are none."""
    if conn.execute("SELECT to_regclass('migration')").fetchone() == (None,):
        return 0
    row = conn.execute("SELECT max(version) FROM migration").fetchone()
    if row is None or row[0] is None:
        raise StoreDamaged("the table of migrations is empty: the schema is damaged")
    return int(row[0])


def migrate(conn: Connection, address: Address, target: int = LATEST) -> None:
    """Bring the tables to a version, or refuse those of a newer Headgate. Call it with the lock of the leader."""
    with conn.transaction():
        version = version_of(conn)
        if version > LATEST:
            known = f"this Headgate knows up to {LATEST}: install a newer one"
            raise StoreTooNew(f"{address.name}: the tables are of version {version}; {known}")
        if version == 0:
            _create(conn, address)
        for number in range(version + 1, target + 1):
            conn.execute(MIGRATIONS[number - 1].encode())
            conn.execute("INSERT INTO migration (version) VALUES (%s)", (number,))


def _create(conn: Connection, address: Address) -> None:
    # Asked for first: CREATE SCHEMA IF NOT EXISTS needs the right to create even where there is nothing to do.
    if conn.execute("SELECT to_regnamespace(%s)", (address.schema,)).fetchone() == (None,):
        conn.execute(f'CREATE SCHEMA "{address.schema}"'.encode())
    conn.execute("CREATE TABLE migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
