"""The Postgres store against a real server: the suite of all stores, then what only a server can do to us."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import psycopg
import pytest

from headgate.ports import Store
from headgate.stores.postgres import PostgresStore, restore
from headgate.testing.store_conformance import StoreConformance
from tools.postgres_server import NoPostgres, PostgresServer

SCHEMAS = count(1)


class SeededChance:
    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def uniform(self) -> float:
        return self._random.random()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
        server.start()
    except NoPostgres as reason:
        pytest.skip(f"NOTHING ABOUT POSTGRES WAS TESTED: {reason}")
    yield server
    server.remove()


class PostgresHome:
    """A schema of its own for each test, on the one server of the module."""

    backs_up = True

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.url = f"{server.url}&schema=test_{next(SCHEMAS)}"
        self.opened: list[PostgresStore] = []
        self.admin = psycopg.connect(server.url, autocommit=True)

    def store(self, owner: str = "engine", url: str | None = None) -> PostgresStore:
        store = PostgresStore(url or self.url, SeededChance(), owner)
        self.opened.append(store)
        return store

    def end_backend(self, store: PostgresStore) -> None:
        """Kill the server's end of the leader's connection and wait until it is gone."""
        pid = store._leadership.connection.info.backend_pid
        assert self.admin.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)).fetchone() == (True,)

    def crash(self, store: Store) -> None:
        assert isinstance(store, PostgresStore)
        self.end_backend(store)

    def usurper(self) -> PostgresStore:
        self.end_backend(self.opened[-1])
        return self.store("usurper")

    def backup_target(self) -> str:
        return str(self.folder / "copy.gz")

    def from_backup(self, target: str) -> PostgresStore:
        url = f"{self.server.url}&schema=copy_{next(SCHEMAS)}"
        restore(target, url)
        return self.store(url=url)

    def close(self) -> None:
        for store in self.opened:
            store.close()
        self.admin.close()


@pytest.fixture
def home(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresHome]:
    home = PostgresHome(server, tmp_path)
    yield home
    home.close()


class TestPostgresStore(StoreConformance):
    """Everything that any store has to do."""
