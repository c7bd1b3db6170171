"""Connections to a database file: how they are opened and tuned, and what their errors mean to us."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from headgate.ports import StoreDamaged, StoreError, StoreUnavailable
from headgate.stores.sqlite.schema import APPLICATION_ID, migrate

CHECKPOINT_PAGES = 4_000
"""Fewer cost more writes, none lets the log grow and halves the throughput."""
_CACHE_KIB = 32 * 1024
_BUSY_MS = 2_000
_SMALLEST_PAGE = 512
"""SQLite takes a shorter file for a new one."""


def reason(error: Exception) -> str:
    """What went wrong, in one line."""
    return str(error) or type(error).__name__


def opening_error(path: Path, error: apsw.Error) -> StoreError:
    """The error to raise when a file cannot be opened or read."""
    if isinstance(error, apsw.NotADBError):
        return StoreDamaged(f"{path}: this is not a SQLite database, or its beginning is damaged")
    # Our statements are right: if they do not fit the tables, or their numbers, those are not.
    if isinstance(error, apsw.CorruptError | apsw.SQLError | apsw.ConstraintError):
        return StoreDamaged(f"{path}: the database is damaged: {reason(error)}")
    if isinstance(error, apsw.BusyError):
        return StoreUnavailable(f"{path}: another program keeps the database locked")
    return StoreUnavailable(f"{path}: cannot use the database: {reason(error)}")


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into ours."""
    try:
        yield
    except apsw.Error as error:
        raise opening_error(path, error) from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(f"{path}: the database is damaged: a text in it is not UTF-8") from error
    except OSError as error:
        raise StoreUnavailable(f"{path}: cannot use the database: {error.strerror}") from error


def refuse_impossible_path(path: Path) -> None:
    """Say in one line why nothing can be opened there."""
    with opening(path):
        _refuse_impossible(path)


def _refuse_impossible(path: Path) -> None:
    if path.is_dir():
        raise StoreUnavailable(f"{path}: this is a directory, not a database file")
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path}: the directory {path.parent} does not exist")
    if path.exists() and not path.is_file():
        raise StoreUnavailable(f"{path}: this is not a regular file")
    # Asked beforehand, since a failed attempt would leave files of the wrong owner beside the database.
    if path.exists() and not os.access(path, os.R_OK):
        raise StoreUnavailable(f"{path}: no permission to read the file")
    if path.exists() and not os.access(path, os.W_OK):
        raise StoreUnavailable(f"{path}: the file is read-only")


def refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    """Raise for a file that exists and is not a database of ours. Nothing is ever made in its place."""
    with opening(path):
        size = path.stat().st_size
        if size == 0:
            raise StoreDamaged(f"{path}: the file is empty; remove it if a new database is meant to be made")
        if size < _SMALLEST_PAGE:
            raise StoreDamaged(f"{path}: this is not a SQLite database, or it was cut short")
        if int(connection.pragma("application_id")) != APPLICATION_ID:
            raise StoreUnavailable(f"{path}: this is not a Headgate database")


def refuse_cut_short(connection: apsw.Connection, path: Path) -> None:
    """Raise where the end of the file is missing, which SQLite reads as zeros. A log may still hold that end."""
    whole = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    if path.stat().st_size < whole and not has_log(path):
        raise StoreDamaged(f"{path}: the database is damaged: the end of the file is missing")


def has_log(path: Path) -> bool:
    """Whether there are commits beside the file that were not moved into it yet."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def connect_writer(path: Path, vfs: str | None = None) -> apsw.Connection:
    """The owner's connection: the only one that writes and the only one that checkpoints."""
    with opening(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        # Until the content is known to be sound, closing must not move a log into the file.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(has_log(path)))
        connection.set_busy_timeout(_BUSY_MS)
        refuse_foreign(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def tune_writer(connection: apsw.Connection) -> None:
    """Durable commits, and a log that is emptied by this connection."""
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def roll_back(connection: apsw.Connection) -> None:
    """After some errors SQLite has rolled back already, and on a broken disk it cannot: nothing is sealed."""
    if connection.in_transaction:
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")


def disconnect(connection: apsw.Connection) -> None:
    """Close. The last connection moves the log into the file; where it cannot, the next `open` finds the log there."""
    with suppress(apsw.Error):
        connection.close()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All or nothing, with the right to write from the start on."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def connect_reader(path: Path, vfs: str | None = None) -> apsw.Connection:
    """A connection that can change nothing."""
    with opening(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(_BUSY_MS)
    return connection


def refuse_orphaned_log(path: Path) -> None:
    """Raise where a database is missing and its log is not: what the log holds would leak into a new one."""
    if has_log(path):
        raise StoreDamaged(f"{path}: the database is missing, but its log {path.name}-wal is still there")


def create(path: Path, vfs: str | None = None) -> None:
    """Make a new database beside its place and move it there whole: nobody ever sees half of one."""
    partial = path.with_name(path.name + ".partial")
    refuse_orphaned_log(path)
    with opening(path):
        make_private(partial)
        connection = apsw.Connection(str(partial), vfs=vfs)
        try:
            connection.pragma("auto_vacuum", "incremental")
            connection.pragma("application_id", APPLICATION_ID)
            migrate(connection)
            connection.pragma("journal_mode", "wal")
        finally:
            connection.close()
    publish(partial, path)


def make_private(path: Path) -> None:
    """An empty file for its owner alone, in place of any other; the log that comes beside it gets the same rights."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def publish(partial: Path, path: Path) -> None:
    """Move a finished file to its place, durably."""
    try:
        for part in (partial, path.parent):
            descriptor = os.open(part, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if part is partial:
                partial.rename(path)
    except OSError as error:
        raise StoreUnavailable(f"{path}: cannot write it: {error.strerror}") from error


class Readers:
    """Read-only connections for any thread. Each is used by one thread at a time and kept for the next."""

    def __init__(self, path: Path, vfs: str | None = None) -> None:
        self._path = path
        self._vfs = vfs
        self._idle: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[apsw.Connection]:
        """A connection until the end of the block."""
        connection = self._take()
        try:
            with opening(self._path):
                yield connection
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close those that are idle; the others follow when their questions are answered."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> apsw.Connection:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._path}: the store is not open")
            if self._idle:
                return self._idle.pop()
        return connect_reader(self._path, self._vfs)

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
