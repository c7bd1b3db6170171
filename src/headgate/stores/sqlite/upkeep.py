"""Upkeep of a database file: retention, copies, restoring, and checks of its content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from headgate.ports import RESTORE_LEAP, StoreDamaged, StoreError, StoreUnavailable
from headgate.stores.sqlite.connect import (
    connect_reader,
    make_private,
    opening,
    publish,
    reason,
    refuse_foreign,
    refuse_orphaned_log,
)
from headgate.stores.sqlite.owner import OwnerLock
from headgate.stores.sqlite.schema import missing_from, refuse_newer, show_mark

_SHRINK_PAGES = 500
"""Pages that one step gives back: each may cost the moving of another."""
_COPY_PAGES = 2_000

_CONTRADICTIONS: Final = (
    ("SELECT seq FROM status WHERE seq NOT IN (SELECT seq FROM job)", "status of job {}, which does not exist"),
    ("SELECT seq FROM lease WHERE seq NOT IN (SELECT seq FROM job)", "lease of job {}, which does not exist"),
    ("SELECT seq FROM history WHERE seq NOT IN (SELECT seq FROM job)", "end of job {}, which does not exist"),
    ("SELECT seq FROM lease WHERE seq IN (SELECT seq FROM history)", "job {} has ended and has a lease"),
    (
        "SELECT DISTINCT job_seq FROM event WHERE job_seq NOT IN (SELECT seq FROM job)",
        "events of job {}, which does not exist",
    ),
    (
        "SELECT seq FROM job WHERE seq < (SELECT low_water FROM mark) AND seq NOT IN (SELECT seq FROM history)",
        "job {} is live and below the low-water mark",
    ),
    ("SELECT max(seq) FROM job HAVING max(seq) > (SELECT seq FROM mark)", "job {} is above the last number given out"),
    ("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM meta)", "the row that says where the store stands is missing"),
)


def shrink(connection: apsw.Connection, spare: float) -> bool:
    """Give some free pages back to the system, unless they are few enough to be kept for new rows."""
    free, pages = (int(connection.pragma(name)) for name in ("freelist_count", "page_count"))
    surplus = free - int(spare * pages)
    if surplus > 0:
        connection.execute(f"PRAGMA incremental_vacuum({min(surplus, _SHRINK_PAGES)})").fetchall()
    if 0 < surplus <= _SHRINK_PAGES:
        empty_log(connection)
    return surplus > _SHRINK_PAGES


def empty_log(connection: apsw.Connection) -> None:
    """Move the log into the file, as far as readers allow, without waiting for them."""
    timeout = connection.pragma("busy_timeout")
    connection.set_busy_timeout(0)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    finally:
        connection.set_busy_timeout(int(timeout))


def copy(source: apsw.Connection, target: Path, epochs: int = 0) -> None:
    """Copy a database to a new file while others write to it; `epochs` are added to that of the copy."""
    with _new_file(target) as partial, source, _connected(partial) as copied:
        # The read transaction pins one moment: later commits neither get in nor make the copy start over.
        source.execute("SELECT epoch FROM meta").fetchall()
        with copied.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_COPY_PAGES)
        copied.execute("UPDATE meta SET epoch = epoch + ?", (epochs,))
        # One file that can be read where nothing can be written; its first owner gives it a log again.
        copied.pragma("journal_mode", "delete")
    publish(partial, target)


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """Refuse to overwrite, and leave nothing behind where copying fails."""
    if not target.name or target.is_dir():
        raise StoreUnavailable(f"{target}: this is a directory, not a file to copy to")
    partial = target.with_name(target.name + ".partial")
    if target.exists():
        raise StoreError(f"{target}: this file exists already and is not overwritten")
    if not target.parent.is_dir():
        raise StoreUnavailable(f"{target}: the directory {target.parent} does not exist")
    refuse_orphaned_log(target)
    try:
        make_private(partial)
        yield partial
    except (apsw.Error, OSError) as error:
        partial.unlink(missing_ok=True)
        raise StoreUnavailable(f"{target}: cannot write the copy: {reason(error)}") from error


@contextmanager
def _connected(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


def restore(source: str | Path, target: str | Path) -> None:
    """Make a database from a copy. Its epoch jumps, so that tokens given out since the copy was made are refused."""
    source, target = Path(source), Path(target).resolve()
    problems = verify(source)
    if problems:
        raise StoreDamaged(f"{source}: the copy is damaged: {problems[0]}")
    if not target.parent.is_dir():
        raise StoreUnavailable(f"{target}: the directory {target.parent} does not exist")
    lock = OwnerLock(target)
    lock.acquire()
    connection = connect_reader(source)
    try:
        copy(connection, target, RESTORE_LEAP)
    finally:
        connection.close()
        lock.release()


def verify(path: str | Path) -> list[str]:
    """What is wrong with a database file, at rest or not; empty if nothing is."""
    with _readable(Path(path)) as connection:
        return check(connection)


def backup(path: str | Path, target: str | Path) -> None:
    """Copy a database file, at rest or not, to a new one."""
    with _readable(Path(path)) as connection:
        copy(connection, Path(target))


@contextmanager
def _readable(path: Path) -> Iterator[apsw.Connection]:
    """A reading connection to a file that is ours and not too new."""
    if not path.is_file():
        found = "this is a directory, not a database file" if path.is_dir() else "there is no such file"
        raise StoreUnavailable(f"{path}: {found}")
    connection = connect_reader(path)
    try:
        refuse_foreign(connection, path)
        with opening(path):
            refuse_newer(connection, str(path))
        yield connection
    finally:
        connection.close()


def check(connection: apsw.Connection) -> list[str]:
    """Damage in the file, then missing tables, then rows that contradict each other."""
    try:
        damage = damage_of(connection, "integrity_check") or list(filter(None, [missing_from(connection)]))
        return damage or [*_unreadable(connection), *_contradictions(connection)]
    except (apsw.CorruptError, apsw.SQLError) as error:
        return [reason(error)]
    except UnicodeDecodeError:
        return ["the name of a table is not UTF-8"]


def _unreadable(connection: apsw.Connection) -> Iterator[str]:
    """Tables with texts that are not UTF-8, which SQLite itself does not look at."""
    columns = connection.execute("""SELECT m.name, group_concat(c.name) FROM sqlite_schema m
        JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.type = 'TEXT' GROUP BY m.name""")
    for table, texts in columns.fetchall():
        try:
            for _ in connection.execute(f"SELECT {texts} FROM {table}"):
                pass
        except UnicodeDecodeError:
            yield f"a text in table {table} is not UTF-8"


def _contradictions(connection: apsw.Connection) -> Iterator[str]:
    show_mark(connection)
    for statement, problem in _CONTRADICTIONS:
        for (number,) in connection.execute(f"{statement} LIMIT 100"):
            yield problem.format(number)


def damage_of(connection: apsw.Connection, pragma: str) -> list[str]:
    """What `quick_check` or `integrity_check` finds."""
    found = [line for (text,) in connection.execute(f"PRAGMA {pragma}(20)") for line in str(text).splitlines()]
    return [] if found == ["ok"] else [line for line in found if not line.startswith("***")] or found
