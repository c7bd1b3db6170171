"""Connections: how they are made, what is set on each, and how their failures read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format

from headgate.ports import StoreUnavailable
from headgate.stores.postgres.address import Address

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_LAST_WORDS: Final = ("57P01", "57P02", "57P03")
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


def is_lost(conn: Connection, error: psycopg.Error) -> bool:
    """Whether the connection broke, so that nobody knows whether the statement took effect.

    An error without a code does not come from the server. One of the named codes does, as its last word.
    """
    code = error.sqlstate
    return conn.closed or code is None or code.startswith("08") or code in _LAST_WORDS


def describe(address: Address, error: psycopg.Error) -> str:
    """What the server or the driver said, in one line without secrets."""
    return address.redact(error.diag.message_primary or error)


class Statements:
    """Statements prepared on one connection, run without the driver's cursors: they cost more than the network does.

    The call blocks without holding the interpreter's lock, and a signal cannot break it off half-way.
    """

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self._names: dict[bytes, bytes] = {}

    def run(self, statement: bytes, parameters: Sequence[bytes | None]) -> int:
        """Run a statement with parameters in the binary format; how many rows it returned."""
        name = self._names.get(statement) or self._prepare(statement)
        values: Any = parameters  # the driver's types forget that a parameter may be null
        result = self.conn.pgconn.exec_prepared(name, values, [Format.BINARY] * len(parameters), Format.BINARY)
        if result.status != ExecStatus.TUPLES_OK:
            raise error_from_result(result)
        return result.ntuples

    def _prepare(self, statement: bytes) -> bytes:
        name = b"headgate_%d" % len(self._names)
        result = self.conn.pgconn.prepare(name, statement)
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)
        self._names[statement] = name
        return name
