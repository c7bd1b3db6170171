from pathlib import Path

import apsw
import pytest

from headgate.ports import Store
from headgate.stores.sqlite import SqliteStore
from headgate.testing.store_conformance import StoreConformance


class SqliteHome:
    """A file in a directory of its own."""

    backs_up = True

    def __init__(self, path: Path) -> None:
        self.path = path / "headgate.db"
        self.stores: list[SqliteStore] = []

    def store(self) -> Store:
        return self.at(self.path)

    def at(self, path: Path) -> SqliteStore:
        store = SqliteStore(path)
        self.stores.append(store)
        return store

    def crash(self, store: Store) -> None:
        """Lose the lock and the connection without a commit and without a checkpoint."""
        assert isinstance(store, SqliteStore)
        assert store._connection is not None
        store._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        store._connection.close()
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


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def home(self, tmp_path: Path) -> SqliteHome:
        return SqliteHome(tmp_path)
