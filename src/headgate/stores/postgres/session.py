"""Connections: how they are made, what is set on each, and how their failures read."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo

from headgate.ports import StoreUnavailable
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.arrays import register

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# A peer that vanished without a word (power cut, cable) is noticed within about ten seconds, by either side.
LINK: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "4",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "headgate",
}
# Settings that a server, database or role may have made otherwise. Those that a version lacks are left out.
# Our statements differ in the length of their arrays only: one plan serves all, and planning costs more than running.
SETTINGS: Final = b"""
SELECT set_config(name, wanted.value, false)
FROM pg_settings JOIN (VALUES
    ('plan_cache_mode', 'force_generic_plan'),
    ('jit', 'off'),
    ('synchronous_commit', 'on'),
    ('default_transaction_isolation', 'read committed'),
    ('statement_timeout', '0'),
    ('lock_timeout', '0'),
    ('transaction_timeout', '0'),
    ('idle_session_timeout', '0'),
    ('idle_in_transaction_session_timeout', '60000'),
    ('tcp_keepalives_idle', '4'),
    ('tcp_keepalives_interval', '2'),
    ('tcp_keepalives_count', '3'),
    ('tcp_user_timeout', '10000')
) AS wanted(name, value) USING (name)
WHERE name <> 'synchronous_commit' OR setting = 'off'
"""


def connect(address: Address) -> Connection:
    """A connection in autocommit mode that finds the tables without naming their schema."""
    try:
        conn = psycopg.connect(make_conninfo("", **LINK | address.options, client_encoding="utf8"), autocommit=True)
    except psycopg.Error as error:
        raise unavailable(address, error) from None
    try:
        _prepare(conn, address)
    except BaseException:
        conn.close()
        raise
    return conn


def _prepare(conn: Connection, address: Address) -> None:
    try:
        register(conn)
        encoding = conn.info.parameter_status("server_encoding")
        conn.execute(SETTINGS)
        # The name was checked when the URL was read: it needs no quoting beyond this.
        conn.execute(f'SET search_path TO "{address.schema}"'.encode())
    except psycopg.Error as error:
        raise unavailable(address, error) from None
    if encoding != "UTF8":
        raise StoreUnavailable(f"{address.name}: the database is encoded in {encoding}; Headgate needs UTF8")


def unavailable(address: Address, error: psycopg.Error) -> StoreUnavailable:
    """A failure of the database as one line."""
    if isinstance(error, (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)):
        return StoreUnavailable(f"{address.name}: schema {address.schema} holds no Headgate tables")
    return StoreUnavailable(f"{address.name}: {describe(address, error)}")


def describe(address: Address, error: psycopg.Error) -> str:
    """What the server or the driver said, in one line without secrets."""
    return address.redact(error.diag.message_primary or error)
