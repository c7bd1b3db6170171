"""From an address to an engine: which store, whose process, which policy."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from headgate.core.commands import Command
from headgate.core.errors import HeadgateError
from headgate.core.ordering import FirstFit, Policy
from headgate.core.settings import Settings
from headgate.engine.errors import EngineUnreachable, SettingsIgnored
from headgate.engine.failpoints import Hook, from_text
from headgate.engine.forecast import Forecast
from headgate.engine.local import Face
from headgate.engine.member import PATIENCE, Member
from headgate.engine.questions import FindJobs, GetDocuments, GetRecords, GetSettings, JobInfo
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.policy.deciding import PolicyEngine
from headgate.policy.managing import Policies
from headgate.policy.measuring import JobSpan
from headgate.ports import JobQuery, RecordRow, Store, StoreUnavailable
from headgate.stores.memory import MemoryStore
from headgate.stores.sqlite import SqliteStore
from headgate.system import SystemChance, SystemClock, stopwatch

R = TypeVar("R")
_PAGE = 10_000
_JOBS_PAGE = 1_000


def open_store(url: str, *, server: bool = False) -> Store:
    """The store that an address names: a path, `sqlite://PATH`, `memory://` or `postgresql://...`. It is not opened.

    A file that a server owns says so: whoever opens it otherwise is sent there.
    """
    if not url:
        raise StoreUnavailable("the address of the database is empty")
    scheme, separator, rest = url.partition("://")
    if not separator:
        return SqliteStore(url, server=server)
    match scheme:
        case "memory":
            return MemoryStore()
        case "sqlite":
            if not rest:
                raise StoreUnavailable("sqlite:// needs a path, for example sqlite:///var/lib/headgate.db")
            return SqliteStore(rest, server=server)
        case "postgresql" | "postgres":
            return _postgres(url)
    known = "a path, sqlite://PATH, memory:// or postgresql://..."
    raise StoreUnavailable(f"{scheme}:// is not a kind of database Headgate knows; use {known}")


def _postgres(url: str) -> Store:
    try:
        from headgate.stores.postgres import PostgresStore  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise StoreUnavailable("postgresql:// needs the extra 'postgres': pip install headgate[postgres]") from error
    return PostgresStore(url, SystemChance())


def start_engine(
    store: Store, settings: Settings | None = None, policy: Policy | None = None, *, standby: bool = False
) -> SharedEngine:
    """An engine that owns its store, running; `StoreOwned` says who owns it otherwise. A standby waits instead."""
    clock = SystemClock()
    writer = Writer(store, policy or FirstFit(), SystemChance(), settings, failpoint=failpoint())
    Forecast(writer)
    return SharedEngine(writer, clock).start(standby)


def open_engine(
    url: str,
    settings: Settings | None = None,
    *,
    policy: Callable[[], Policy] = FirstFit,
    exclusive: bool = False,
    standby: bool = False,
    patience: int = PATIENCE,
) -> Face:
    """The engine of a database.

    A file is shared by the processes of a machine: the first owns it, later ones are its clients, and one of them
    takes over when the owner goes. With `exclusive` a second process gets an error that names the owner instead.
    The settings of the owner hold for all; a later process that asked for others is warned (`SettingsIgnored`).
    An owner that does not answer for `patience` milliseconds is reported as `EngineSilent`.
    Other databases are always owned exclusively; with `standby` this waits until it can become the owner.
    """
    store = open_store(url)
    if exclusive or not isinstance(store, SqliteStore):
        return start_engine(store, settings, policy(), standby=standby)
    path = store.path

    def open_owner() -> SharedEngine:
        return start_engine(SqliteStore(path), settings, policy())

    member = Member(path, open_owner, SystemClock(), threading.Event().wait, stopwatch, patience).start()
    if settings is not None and not member.owner:
        _warn_of_ignored(member, settings, path)
    return member


def _warn_of_ignored(member: Member, settings: Settings, path: Path) -> None:
    """The owner's settings hold for all: whoever asked for others should know. Defaults ask for nothing."""
    try:
        plain, owners = Settings(), member.ask(GetSettings())
    except HeadgateError as error:
        if isinstance(error, EngineUnreachable):
            raise
        return  # an owner of an older version does not know the question
    asked = [name for name in Settings.__struct_fields__ if getattr(settings, name) != getattr(plain, name)]
    ignored = [name for name in asked if getattr(settings, name) != getattr(owners, name)]
    if ignored:
        message = f"{path} is owned by another process, whose settings hold; ignored here: {', '.join(ignored)}"
        warnings.warn(message, SettingsIgnored, stacklevel=3)


def failpoint() -> Hook | None:
    """The failpoints that the environment asks for: for crash tests, and never set otherwise."""
    text = os.environ.get("HEADGATE_FAILPOINTS")
    return from_text(text) if text else None


class Desk:
    """An engine as the policies see it: a place for documents, and a log of decisions."""

    def __init__(self, engine: Face) -> None:
        self._engine = engine

    def do(self, command: Command[R]) -> R:
        """Carry out a command."""
        return self._engine.do(command)

    def documents(self, kind: str) -> dict[str, bytes]:
        """All documents of a kind."""
        return self._engine.ask(GetDocuments(kind))

    def records(self, kind: str, key: str | None = None, since: int = 0, until: int | None = None) -> list[bytes]:
        """Entries of a log, oldest first."""
        return [row.body for row in each_record(self._engine.ask, kind, key, since, until)]

    def each_record(self, kind: str, since: int = 0) -> Iterator[bytes]:
        """The same one by one."""
        return (row.body for row in each_record(self._engine.ask, kind, since=since))

    def each_job(self, since: int) -> Iterator[JobSpan]:
        """Jobs submitted from a time on."""
        return each_job(self._engine.ask, since)


def each_record(
    ask: Callable[[GetRecords], list[RecordRow]],
    kind: str,
    key: str | None = None,
    since: int = 0,
    until: int | None = None,
) -> Iterator[RecordRow]:
    """Every entry of a log, asked for page by page; a page begins at the time of the last entry before it."""
    seen: set[int] = set()
    limit = _PAGE
    while True:
        page = ask(GetRecords(kind, since, until, key, limit))
        fresh = [row for row in page if row.number not in seen]
        yield from fresh
        if len(page) < limit:
            return
        since = page[-1].at
        seen = {row.number for row in page if row.at == since}
        limit = _PAGE if fresh else 2 * limit  # more entries of one instant than a page holds


def each_job(ask: Callable[[FindJobs], list[JobInfo]], since: int) -> Iterator[JobSpan]:
    """Jobs submitted from a time on, asked for page by page."""
    after: int | None = None
    while True:
        page = ask(FindJobs(JobQuery(created_from=since, order="oldest", after=after, limit=_JOBS_PAGE)))
        for job in page:
            yield JobSpan(job.id, job.kind.tenant, job.kind.units, job.created_at, job.started_at, job.ended_at)
        if len(page) < _JOBS_PAGE:
            return
        after = page[-1].seq


def policies_of(engine: Face, deciding: PolicyEngine) -> Policies:
    """All that can be done with the policies of an engine."""
    return Policies(Desk(engine), deciding, SystemClock().now)


def database_path(url: str) -> Path | None:
    """The file that an address names, if it names one."""
    store = open_store(url)
    return store.path if isinstance(store, SqliteStore) else None
