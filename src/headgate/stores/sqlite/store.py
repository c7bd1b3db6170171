"""The store: one owner, one writing connection, one transaction a batch. Questions go to connections of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import apsw

from headgate.core.states import JobState
from headgate.ports import (
    Batch,
    CommitFailed,
    Deposed,
    DocumentRow,
    EndedJob,
    EventRow,
    JobQuery,
    JobRow,
    JobView,
    JournalRow,
    Key,
    LiveJob,
    Mark,
    OldEnd,
    RecordRow,
    StoreError,
    StoreUnavailable,
)
from headgate.stores.sqlite import read, upkeep
from headgate.stores.sqlite.beside import while_checking
from headgate.stores.sqlite.connect import (
    Readers,
    connect_writer,
    create,
    disconnect,
    opening,
    reason,
    refuse_cut_short,
    refuse_impossible_path,
    roll_back,
    transaction,
    tune_writer,
)
from headgate.stores.sqlite.log import LogRoom
from headgate.stores.sqlite.owner import OwnerLock
from headgate.stores.sqlite.schema import VERSION, migrate, refuse_newer, version_of
from headgate.stores.sqlite.write import put

R = TypeVar("R")
_JOURNAL_PAGE = 500


class SqliteStore:
    """A database file. The first process to open it owns it; a second one is told who does."""

    def __init__(self, path: str | Path, *, vfs: str | None = None, server: bool = False) -> None:
        # Two names of one file must lead to one lock.
        self.path = Path(path).resolve()
        self.name = str(path)
        self._vfs = vfs
        self._lock = OwnerLock(self.path, server=server)
        self._connection: apsw.Connection | None = None
        self._room: LogRoom | None = None
        self._readers: Readers | None = None
        self._epoch = 0
        self._fenced = False
        """Whether the batch that was written has seen the epoch to be this owner's."""
        self._broken: str | None = None

    # -- the owner --------------------------------------------------------------------------------------------

    def open(self) -> Mark:
        """Opening anew, after a failed commit, keeps the lock and answers questions meanwhile."""
        return self.open_beside(lambda mark: mark)

    def open_beside(self, rebuild: Callable[[Mark], R]) -> R:
        """Looking through the file takes as long as a good part of rebuilding: both happen at once."""
        anew = self._lock.held
        self._let_go_of_writer()
        if not anew:
            self._begin()
        try:
            self._connection = connect_writer(self.path, self._vfs)
            with opening(self.path):
                return self._take_over(self._connection, rebuild)
        except BaseException:
            if anew:
                self._let_go_of_writer()
            else:
                self._let_go_of_writer()
                self._lock.withdraw()
                self.close()
            raise

    def _begin(self) -> None:
        refuse_impossible_path(self.path)
        self._lock.acquire()
        try:
            if not self.path.exists():
                create(self.path, self._vfs)
        except BaseException:
            self._lock.withdraw()
            raise

    def _take_over(self, connection: apsw.Connection, rebuild: Callable[[Mark], R]) -> R:
        refuse_newer(connection, self.name)
        refuse_cut_short(connection, self.path)
        if version_of(connection) < VERSION:  # rows of an earlier version cannot be read yet
            while_checking(self.path, self._vfs, lambda: None)
            self._own(connection)
        built, mark = while_checking(self.path, self._vfs, lambda: self._rebuilt(connection, rebuild))
        # Nothing was written until here: a damaged file stays as it was found.
        self._own(connection)
        with transaction(connection):
            connection.execute("UPDATE meta SET epoch = epoch + 1")
            if read.mark(connection) != mark:
                raise StoreUnavailable(f"{self.path}: another process wrote to the database while it was being opened")
        self._epoch, self._broken = mark.epoch, None
        if self._vfs is None:  # another file system than the machine's has a way of its own to its files
            self._room = LogRoom(connection, self.path)
        if self._readers is None:
            self._readers = Readers(self.path, self._vfs)
        return built

    def _rebuilt(self, connection: apsw.Connection, rebuild: Callable[[Mark], R]) -> tuple[R, Mark]:
        mark = read.mark(connection)
        mark = mark._replace(epoch=mark.epoch + 1)
        return rebuild(mark), mark

    def _own(self, connection: apsw.Connection) -> None:
        tune_writer(connection)
        # A log whose last sync failed may look whole and not be on the disk. Moving it into the file writes all of
        # it anew, so that later commits do not rest on it.
        upkeep.empty_log(connection)
        migrate(connection)

    def live_jobs(self) -> Iterator[LiveJob]:
        connection = self._open_connection()
        with opening(self.path):
            yield from read.live_jobs(connection)

    def recent_ends(self, limit: int) -> list[EndedJob]:
        with opening(self.path):
            return read.recent_ends(self._open_connection(), limit)

    def documents(self) -> Iterator[DocumentRow]:
        with opening(self.path):
            return iter(read.documents(self._open_connection()))

    def write(self, batch: Batch) -> None:
        connection = self._writer()
        try:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
                if self._room is not None:
                    self._room.make()
            self._fenced = put(connection, batch, self._epoch)
        except Exception as error:  # noqa: BLE001 - whatever it was, half a batch must never be sealed
            self._give_up(connection, error)

    def seal(self) -> None:
        connection = self._writer()
        if not connection.in_transaction:
            return
        try:
            if not self._fenced:
                self._fence(connection)
            connection.execute("COMMIT")
        except apsw.Error as error:
            self._give_up(connection, error)

    def close(self) -> None:
        readers, self._readers = self._readers, None
        try:
            if readers is not None:
                readers.close()
            self._let_go_of_writer()
        finally:
            self._lock.release()

    def _let_go_of_writer(self) -> None:
        connection, self._connection = self._connection, None
        self._room = None
        if connection is not None:
            roll_back(connection)
            disconnect(connection)

    def _open_connection(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreError(f"{self.name}: the store is not open")
        return self._connection

    def _writer(self) -> apsw.Connection:
        connection = self._open_connection()
        if not self._lock.held:
            raise StoreError(f"{self.name}: a forked process cannot use its parent's store")
        if self._broken is not None:
            raise CommitFailed(f"{self.name}: an earlier commit failed, open the store anew: {self._broken}")
        return connection

    def _fence(self, connection: apsw.Connection) -> None:
        """Inside a write transaction nobody else can raise the epoch: what holds here holds at the commit."""
        ((epoch,),) = connection.execute("SELECT epoch FROM meta")
        if epoch != self._epoch:
            self._broken = f"the store is at epoch {epoch}, this engine is of epoch {self._epoch}"
            roll_back(connection)
            raise Deposed(f"{self.name}: {self._broken}")

    def _give_up(self, connection: apsw.Connection, error: Exception) -> NoReturn:
        """Never try again here: after a failed sync the system may report success for what is not on the disk."""
        self._broken = reason(error)
        roll_back(connection)
        raise CommitFailed(f"{self.name}: the commit failed: {self._broken}") from error

    # -- history ----------------------------------------------------------------------------------------------

    def _reading(self) -> Readers:
        if self._readers is None:
            raise StoreError(f"{self.name}: the store is not open")
        return self._readers

    def find_jobs(self, query: JobQuery) -> list[JobView]:
        with self._reading().borrow() as connection:
            return read.find_jobs(connection, query)

    def get_job(self, job_id: str) -> JobView | None:
        with self._reading().borrow() as connection:
            return read.get_job(connection, job_id)

    def states_of(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        with self._reading().borrow() as connection:
            return read.states_of(connection, job_ids)

    def find_keys(self, keys: Iterable[Key]) -> dict[Key, JobRow]:
        with self._reading().borrow() as connection:
            return read.find_keys(connection, keys)

    def counts(self) -> dict[tuple[JobState, int], int]:
        with self._reading().borrow() as connection:
            return read.counts(connection)

    def events_of(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[EventRow]:
        with self._reading().borrow() as connection:
            return read.events_of(connection, job_id, after, limit)

    def journal(self, after: int = 0) -> Iterator[JournalRow]:
        """Page by page: one long read would keep the log from being emptied."""
        while True:
            with self._reading().borrow() as connection:
                page = read.journal_page(connection, after, _JOURNAL_PAGE)
            yield from page
            if len(page) < _JOURNAL_PAGE:
                return
            after = page[-1].number

    def entries(self, since: int = 0, until: int | None = None, after: int = 0, limit: int = 1_000) -> list[JournalRow]:
        with self._reading().borrow() as connection:
            return read.entries(connection, since, until, after, limit)

    def records(
        self, kind: str, since: int = 0, until: int | None = None, key: str | None = None, limit: int = 1_000,
        *, newest: bool = False,
    ) -> list[RecordRow]:  # fmt: skip
        with self._reading().borrow() as connection:
            return read.records(connection, kind, since, until, key, limit, newest=newest)

    # -- upkeep -----------------------------------------------------------------------------------------------

    def old_ends(self, before: int, after: tuple[int, int] = (-1, 0), limit: int = 1_000) -> list[OldEnd]:
        with self._reading().borrow() as connection:
            return read.old_ends(connection, before, after, limit)

    def old_entries(self, before: int, limit: int = 1_000) -> list[int]:
        with self._reading().borrow() as connection:
            return read.old_entries(connection, before, limit)

    def old_records(self, kind: str, before: int, limit: int = 1_000) -> list[tuple[int, int]]:
        with self._reading().borrow() as connection:
            return read.old_records(connection, kind, before, limit)

    def shrink(self, spare: float) -> bool:
        connection = self._writer()
        if connection.in_transaction:
            raise StoreError(f"{self.name}: a batch is open; seal it first")
        try:
            more = upkeep.shrink(connection, spare)
        except apsw.Error as error:
            self._give_up(connection, error)
        if self._room is not None:
            self._room.emptied()
        return more

    def backup(self, target: str) -> None:
        with self._reading().borrow() as connection:
            upkeep.copy(connection, Path(target))

    def check(self) -> list[str]:
        with self._reading().borrow() as connection:
            return upkeep.check(connection)
