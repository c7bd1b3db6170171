"""What can be done to a database from outside an engine: verify, copy, restore, compact."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from headgate.bootstrap.engine import database_path, open_store
from headgate.core.errors import HeadgateError, InvariantBroken
from headgate.core.ordering import FirstFit
from headgate.core.quantities import duration
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.verify import verify
from headgate.engine.compacting import counted
from headgate.engine.errors import EngineSilent, EngineUnreachable
from headgate.engine.local import LocalClient
from headgate.engine.questions import history_of, job_info
from headgate.engine.recovery import recover
from headgate.engine.replay import JournalBroken, check_journal
from headgate.engine.soundness import check_mark, reading
from headgate.engine.writer import Writer
from headgate.ports import Compacted, JobQuery, Mark, Store, StoreDamaged, StoreOwned, StoreUnavailable
from headgate.stores import sqlite
from headgate.stores.memory import MemoryStore
from headgate.system import SystemChance, SystemClock

__all__ = [
    "Compacted",
    "HeadgateError",
    "Retention",
    "StoreOwned",
    "Verified",
    "backup",
    "compact",
    "migrate",
    "restore",
    "retention",
    "same_database",
    "verify_database",
]


_PAGE = 1_000


class Verified(NamedTuple):
    """What is wrong with a database, and what could not be looked at."""

    problems: list[str]
    notes: list[str]


def verify_database(url: str) -> Verified:
    """Check a database: its storage, its rows against each other, the rules of the core, and the journal against all.

    A file is not changed, and may be in use: what is checked beyond its storage is a copy. A Postgres database is
    opened for the deeper checks, so no engine may lead it.
    """
    path = database_path(url)
    if path is None:
        return _verify_served(_existing(url))
    problems = sqlite.verify(path)
    if problems:
        return Verified(problems, [])
    with tempfile.TemporaryDirectory(prefix="headgate-verify-") as directory:
        copy = Path(directory) / "copy.db"
        sqlite.backup(path, copy)
        try:
            return _verify_opened(sqlite.SqliteStore(copy))
        except StoreDamaged as error:
            return Verified([str(error).replace(str(copy.resolve()), str(path)).replace(str(copy), str(path))], [])


def _verify_served(store: Store) -> Verified:
    problems = store.check()
    if problems:
        return Verified(problems, [])
    try:
        return _verify_opened(store)
    except StoreOwned as error:
        return Verified([], [f"only what is stored was checked, not the journal: {error}"])


def _verify_opened(store: Store) -> Verified:
    mark = store.open()
    try:
        check_mark(store.name, mark)
        problems = [*_unreadable(store), *_broken_rules(store, mark)]
        broken, notes = _replayed(store, mark)
        return Verified(problems + broken, notes)
    finally:
        store.close()


def _unreadable(store: Store) -> Iterator[str]:
    """Jobs whose specification, outcome or history cannot be read."""
    query = JobQuery(order="oldest", limit=_PAGE)
    while page := store.find_jobs(query):
        for view in page:
            try:
                with reading(f"job {view.job.id}"):
                    job_info(view)
                    history_of(store, view.job.id)
            except StoreDamaged as error:
                yield str(error)
        query = msgspec.structs.replace(query, after=page[-1].job.seq)


def _broken_rules(store: Store, mark: Mark) -> list[str]:
    state, _ = recover(store, Settings(), mark, SystemClock().now())
    try:
        verify(state)
    except InvariantBroken as error:
        return [f"a rule of the core does not hold: {error}"]
    return []


def _replayed(store: Store, mark: Mark) -> tuple[list[str], list[str]]:
    first = next(iter(store.journal()), None)
    try:
        found = check_journal(store, mark)
    except JournalBroken as error:
        found = [str(error)]
    if found and first is not None and first.number > 1:
        why = f"the journal begins at commit {first.number}, what came before was deleted for its age"
        return [], [f"{why}: the rest was not replayed"]
    return found, []


def backup(url: str, target: str) -> None:
    """Copy a database, as it is at one moment, while work goes on."""
    if not target:
        raise StoreUnavailable("the name of the new file is empty")
    path = database_path(url)
    if path is None:
        open_store(url).backup(target)
    else:
        sqlite.backup(path, Path(target))


def restore(source: str, url: str) -> None:
    """Make a database from a copy; its epoch jumps, so that leases from before are void."""
    if not source:
        raise StoreUnavailable("the name of the copy is empty")
    path = database_path(url)
    if path is not None:
        sqlite.restore(source, path)
        return
    if not url.startswith("postgres"):
        raise StoreUnavailable(f"nothing can be restored into {url}: it does not outlive the process")
    from headgate.stores import postgres  # noqa: PLC0415 - an optional extra

    postgres.restore(source, url)


def retention(ages: dict[str, str]) -> Retention:
    """Ages as people write them: '30d', '12h'; a number alone is seconds. What is not named stays."""
    return Retention(**{name: duration(age, name) for name, age in ages.items()})


def migrate(url: str) -> int:
    """Bring a database to this version by opening it once; the epoch it is in now."""
    store = _existing(url)
    try:
        return store.open().epoch
    finally:
        store.close()


def compact(url: str, keep: Retention) -> Compacted:
    """Delete what is older than its age: here, or by the process that owns the file if it serves others.

    `StoreOwned` says who owns it otherwise.
    """
    writer = Writer(_existing(url), FirstFit(), SystemChance())
    try:
        writer.open(SystemClock().now())
        return _compact_here(writer, keep)
    except StoreOwned as owned:
        return _compact_there(url, keep, owned)
    finally:
        writer.close()


def _compact_here(writer: Writer, keep: Retention) -> Compacted:
    """Without letting time pass: nothing but what is too old is touched."""
    while writer.index_backlog:
        writer.index()
    total = Compacted()
    for gone in writer.sweep(keep, SystemClock().now()):
        writer.drop(gone)
        total = counted(total, gone)
    while writer.store.shrink(spare=0.0):
        pass
    return total


def _compact_there(url: str, keep: Retention, owned: StoreOwned) -> Compacted:
    path = database_path(url)
    if path is None:
        raise owned
    client = LocalClient(path.with_name(path.name + ".sock"))
    try:
        return client.compact(keep)
    except EngineSilent:
        raise
    except EngineUnreachable:
        raise owned from None
    finally:
        client.stop()


def same_database(one: str, other: str) -> bool:
    """Whether two addresses name the same database."""
    paths = database_path(one), database_path(other)
    return one == other or (paths[0] is not None and paths[0] == paths[1])


def _existing(url: str) -> Store:
    """The store of a database that is there: opening would make a new one."""
    store = open_store(url)
    if isinstance(store, sqlite.SqliteStore) and not store.path.exists():
        raise StoreUnavailable(f"{store.path}: there is no such file")
    if isinstance(store, MemoryStore):
        raise StoreUnavailable(f"{url} does not outlive its process: there is nothing to look at")
    return store
