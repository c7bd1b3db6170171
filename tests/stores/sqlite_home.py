"""Where the tests of the SQLite store keep their files, and a file system that fails on command."""

from pathlib import Path
from typing import Any, Literal

import apsw

from headgate.ports import Store
from headgate.stores.sqlite import SqliteStore


class SqliteHome:
    """A file in a directory of its own."""

    backs_up = True

    def __init__(self, directory: Path) -> None:
        self.path = directory / "headgate.db"
        self.stores: list[SqliteStore] = []

    def store(self) -> Store:
        return self.at(self.path)

    def at(self, path: Path) -> SqliteStore:
        store = SqliteStore(path)
        self.stores.append(store)
        return store

    def crash(self, store: Store) -> None:
        """Lose the lock and the connections without a commit and without a checkpoint."""
        assert isinstance(store, SqliteStore)
        assert store._connection is not None
        store._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        store._connection.close()
        store._connection = None
        store._lock.abandon()

    def usurper(self) -> Store:
        """Somebody removed the lock file: only the epoch stands between two owners."""
        self.path.with_name(self.path.name + ".lock").unlink()
        return self.store()

    def backup_target(self) -> str:
        return str(self.path.with_name("copy.db"))

    def from_backup(self, target: str) -> Store:
        return self.at(Path(target))

    def close(self) -> None:
        for store in self.stores:
            store.close()


Operation = Literal["write", "sync", "truncate"]
Fault = Literal["fsync", "write", "full"]
FAULTS: tuple[Fault, ...] = ("fsync", "write", "full")


class FaultyVFS(apsw.VFS):
    """The real file system, until a fault is asked for. Counts what it does."""

    def __init__(self, name: str) -> None:
        super().__init__(name, base="")
        self.name = name
        self.done: list[tuple[Operation, str]] = []
        self.fault: Fault | None = None
        self.operations: tuple[Operation, ...] = ("write", "sync", "truncate")
        self.ending = ""
        self.spare = 0
        self.once = False

    def fail(self, fault: Fault, *operations: Operation, ending: str = "", spare: int = 0, once: bool = False) -> None:
        """From now on (or once) these operations on files of that ending fail, after `spare` of them went well."""
        self.once = once
        self.fault, self.ending, self.spare = fault, ending, spare
        self.operations = operations or ("write", "sync", "truncate")

    def heal(self) -> None:
        """Nothing fails any more."""
        self.fault = None

    def before(self, operation: Operation, name: str) -> None:
        """Raise if this is the time to."""
        self.done.append((operation, name))
        if self.fault is None or operation not in self.operations or not name.endswith(self.ending):
            return
        if self.spare:
            self.spare -= 1
            return
        error = error_of(self.fault)
        if self.once:
            self.heal()
        raise error

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    """A file of such a file system."""

    def __init__(self, vfs: FaultyVFS, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.before("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """No test cuts the power: a real sync would only make the tests as slow as the disk is busy."""
        self._vfs.before("sync", self._name)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._vfs.before("truncate", self._name)
        super().xTruncate(newsize)


def error_of(fault: Fault) -> apsw.Error:
    """The error as the file system gives it to SQLite."""
    if fault == "full":
        return apsw.FullError("injected fault")
    error = apsw.IOError("injected fault")
    extended = apsw.SQLITE_IOERR_FSYNC if fault == "fsync" else apsw.SQLITE_IOERR_WRITE
    error.extendedresult = extended  # type: ignore[attr-defined]  # what apsw hands on to SQLite
    return error
