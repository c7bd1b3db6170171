"""Upkeep of a database, by its address: copies, checks, migration, retention."""

from __future__ import annotations

from pathlib import Path

from headgate.bootstrap.engine import open_store
from headgate.ports import Compacted, Retention, StoreError, StoreUnavailable
from headgate.stores.sqlite import SqliteStore
from headgate.stores.sqlite import restore as restore_sqlite
from headgate.stores.sqlite import verify as verify_sqlite
from headgate.stores.sqlite.connect import connect_reader, refuse_foreign
from headgate.stores.sqlite.upkeep import copy
from headgate.system import SystemClock

_POSTGRES = ("postgresql://", "postgres://")


def backup(url: str, target: str) -> None:
    """Copy a database to a new file, also while a server works on it."""
    store = open_store(url)
    if not isinstance(store, SqliteStore):
        store.backup(target)
        return
    _existing(store.path)
    connection = connect_reader(store.path)
    try:
        refuse_foreign(connection, store.path)
        copy(connection, Path(target).resolve())
    finally:
        connection.close()


def restore(url: str, source: str) -> None:
    """Make a database from a copy; one that is there is never overwritten."""
    if url.startswith(_POSTGRES):
        from headgate.stores.postgres.dump import restore as restore_postgres  # noqa: PLC0415 - an optional extra

        restore_postgres(source, url)
        return
    store = open_store(url)
    if not isinstance(store, SqliteStore):
        raise StoreError(f"{url} is not kept: there is nothing to restore to")
    store.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    restore_sqlite(source, store.path)


def verify(url: str) -> list[str]:
    """What is wrong with a database; empty if nothing is."""
    store = open_store(url)
    return verify_sqlite(store.path) if isinstance(store, SqliteStore) else store.check()


def migrate(url: str) -> int:
    """Bring a database to this version, alone; the epoch that it is in now."""
    store = open_store(url)
    if isinstance(store, SqliteStore):
        _existing(store.path)
    try:
        return store.open().epoch
    finally:
        store.close()


def compact(url: str, keep: int) -> Compacted:
    """Delete what ended, or was recorded, more than so many milliseconds ago. No server may work on it."""
    store = open_store(url)
    if isinstance(store, SqliteStore):
        _existing(store.path)
    records = dict.fromkeys(("decision", "load", "audit", "log"), keep)
    try:
        store.open()
        return store.compact(SystemClock().now(), Retention(jobs=keep, journal=keep, records=records))
    finally:
        store.close()


def _existing(path: Path) -> None:
    """Opening a path that is not there would make an empty database of it."""
    if not path.is_file():
        raise StoreUnavailable(f"{path}: there is no such file")
