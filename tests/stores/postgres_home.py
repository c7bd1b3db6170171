"""What the tests of the Postgres store are made of: a schema each, chance that can act, a link that can fail."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Literal

import psycopg

from headgate.ports import Store
from headgate.stores.postgres import PostgresStore, restore
from tools.postgres_server import PostgresServer

_SCHEMAS = count(1)


class ActingChance:
    """Seeded chance. It is drawn before each attempt to reconnect, so it is where a test can make something happen."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)
        self.draws = 0
        self.actions: dict[int, Callable[[], object]] = {}
        """By the number of the draw."""

    def uniform(self) -> float:
        self.draws += 1
        self.actions.pop(self.draws, lambda: None)()
        return self._random.random()


class PostgresHome:
    """An empty schema on the server of the test run."""

    backs_up = True

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.schema = f"test_{next(_SCHEMAS)}"
        self.url = f"{server.url}&schema={self.schema}"
        self.chance = ActingChance()
        self._opened: list[PostgresStore] = []

    def store(self, owner: str = "engine", url: str = "", patience_seconds: float = 30.0) -> PostgresStore:
        store = PostgresStore(url or self.url, self.chance, owner, patience_seconds)
        self._opened.append(store)
        return store

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """Ask the server behind the store's back."""
        with psycopg.connect(self.server.url, autocommit=True) as conn:
            conn.execute(f"SET search_path TO {self.schema}".encode())
            cursor = conn.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def end_backend(self, store: PostgresStore) -> None:
        """Kill the server's end of the leader's connection and wait until it is gone."""
        pid = store._leadership.connection.info.backend_pid
        assert self.sql("SELECT pg_terminate_backend(%s, 10000)", pid) == [(True,)]

    def crash(self, store: Store) -> None:
        assert isinstance(store, PostgresStore)
        self.end_backend(store)

    def usurper(self) -> PostgresStore:
        self.end_backend(self._opened[-1])
        return self.store("usurper")

    def backup_target(self) -> str:
        return str(self.folder / "copy.gz")

    def from_backup(self, target: str) -> PostgresStore:
        url = f"{self.server.url}&schema=copy_{next(_SCHEMAS)}"
        restore(target, url)
        return self.store(url=url)

    def close(self) -> None:
        for store in self._opened:
            store.close()


Fault = Literal["", "lose the request", "lose the reply", "lose the reply and keep the server's end open"]


class Link:
    """A relay between store and server that breaks a connection at a chosen moment, once for each `fault`."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = ("127.0.0.1", server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.fault: Fault = ""
        self.broken = Event()
        self._kept: list[socket.socket] = []
        self._threads = [Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self.shut()
        for kept in self._kept:
            kept.close()
        for thread in self._threads:
            thread.join()

    def shut(self) -> None:
        """Refuse new connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._server)
        except OSError:
            self._hang_up(client)
            return
        for relay in (self._requests, self._replies):
            thread = Thread(target=relay, args=(client, server))
            self._threads.append(thread)
            thread.start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self.fault == "lose the request":
                    self._break(client, server)
                server.sendall(data)
        self._hang_up(client)
        if server not in self._kept:
            self._hang_up(server)

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if self.fault == "lose the reply":
                    self._break(client, server)
                elif self.fault:
                    self._kept.append(server)
                    self._break(client)
                client.sendall(data)
        self._hang_up(client)

    def _break(self, *ends: socket.socket) -> None:
        self.fault = ""
        for end in ends:
            self._hang_up(end)
        self.broken.set()

    @staticmethod
    def _hang_up(end: socket.socket) -> None:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
