"""Copies: everything in one compressed text file, and back into an empty schema.

The file is gzip. Inside: a line that names the format, the version of the tables, then for each table a line with its
columns, its rows as `COPY` writes them and a line `\\.`; at the end a line that counts the rows. A file without that
last line, or one that gzip finds damaged, is refused before anything is changed.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from headgate.ports import RESTORE_LEAP, StoreDamaged, StoreError, StoreTooNew, StoreUnavailable
from headgate.stores.postgres.address import Address, parse_address
from headgate.stores.postgres.connecting import Connection, connect, describe, unavailable
from headgate.stores.postgres.schema import LATEST, migrate, version_of
from headgate.stores.postgres.tables import ALL

FORMAT: Final = b"headgate copy of a postgres store, format 1\n"
END_OF_TABLE: Final = b"\\.\n"
META: Final = ("epoch", "owner", "heartbeat", "commits", "number", "seq", "tokens", "indexed", "low_water")
TABLES: Final = {"meta": META} | {table.name: table.columns for table in ALL}


class Header(NamedTuple):
    """What a sound copy says about itself."""

    version: int
    rows: int


def backup(address: Address, target: str) -> None:
    """Copy everything, as it is at one moment, to a new file."""
    conn = connect(address)
    try:
        with open(target, "xb", opener=_private) as raw, conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0) as out:
                _write(conn, out)
            raw.flush()
            os.fsync(raw.fileno())
    except FileExistsError:
        raise StoreError(f"{target} exists already: a copy never overwrites a file") from None
    except (OSError, psycopg.Error) as error:
        Path(target).unlink(missing_ok=True)
        reason = describe(address, error) if isinstance(error, psycopg.Error) else error.strerror or str(error)
        raise StoreError(f"the copy to {target} failed: {reason}") from error
    finally:
        conn.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(conn: Connection, out: gzip.GzipFile) -> None:
    rows = 0
    out.write(FORMAT + b"version %d\n" % version_of(conn))
    for table, columns in TABLES.items():
        listed = ", ".join(columns)
        out.write(f"{table} ({listed})\n".encode())
        cursor = conn.cursor()
        with cursor.copy(f"COPY (SELECT {listed} FROM {table}) TO STDOUT".encode()) as copy:
            for chunk in copy:
                out.write(chunk)
        rows += cursor.rowcount
        out.write(END_OF_TABLE)
    out.write(b"end %d\n" % rows)


def restore(source: str, url: str) -> None:
    """Put a copy into a schema that holds nothing yet, all of it or nothing."""
    header = _inspect(source)
    address = parse_address(url)
    conn = connect(address)
    try:
        with conn.transaction():
            if version_of(conn):
                raise StoreError(f"{address.name}: the schema holds a store already; restore into an empty one")
            migrate(conn, address, header.version)
            _load(conn, source)
    except psycopg.Error as error:
        raise unavailable(address, error) from error
    finally:
        conn.close()


def _load(conn: Connection, source: str) -> None:
    conn.execute("DELETE FROM meta")
    with gzip.open(source, "rb") as lines:
        for _ in (FORMAT, "version"):
            lines.readline()
        while not (heading := lines.readline()).startswith(b"end "):
            with conn.cursor().copy(b"COPY " + heading.rstrip(b"\n") + b" FROM STDIN") as copy:
                for row in _rows(lines):
                    copy.write(row)
    conn.execute(
        "UPDATE meta SET epoch = epoch + %s, owner = 'restored from a copy', heartbeat = clock_timestamp()",
        (RESTORE_LEAP,),
    )


def _rows(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        if line == END_OF_TABLE:
            return
        yield line


def _inspect(source: str) -> Header:
    """Read the whole file once before anything is changed."""
    try:
        with gzip.open(source, "rb") as lines:
            return _read_header(lines, source)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StoreDamaged(f"{source}: damaged or not a copy of a store ({error})") from error
    except OSError as error:
        raise StoreUnavailable(f"{source}: {error.strerror or error}") from error


def _read_header(lines: gzip.GzipFile, source: str) -> Header:
    if lines.readline() != FORMAT:
        raise StoreDamaged(f"{source}: not a copy of a Postgres store")
    version = int(lines.readline().split()[1])
    if version > LATEST:
        raise StoreTooNew(f"{source}: its tables are of version {version}; this Headgate knows up to {LATEST}")
    rows = 0
    while not (heading := lines.readline()).startswith(b"end "):
        if heading.decode().rstrip("\n") not in {f"{name} ({', '.join(columns)})" for name, columns in TABLES.items()}:
            raise StoreDamaged(f"{source}: the copy breaks off or was changed")
        rows += sum(1 for _ in _rows(lines))
    if int(heading.split()[1]) != rows:
        raise StoreDamaged(f"{source}: the copy holds {rows} rows and should hold {heading.split()[1].decode()}")
    return Header(version, rows)
