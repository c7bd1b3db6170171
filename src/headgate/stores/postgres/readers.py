"""Connections for questions, apart from the leader's, so that a long question never holds up a commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore, Event, Lock
from typing import Any, Final

import psycopg

from headgate.ports import Chance, StoreUnavailable
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.backoff import Backoff
from headgate.stores.postgres.connecting import Connection, connect, unavailable

SIZE: Final = 2
PATIENCE_SECONDS: Final = 5.0


class Readers:
    """A few connections, made when first needed and made anew when the server dropped them."""

    def __init__(self, address: Address, chance: Chance, closing: Event) -> None:
        self._address = address
        self._chance = chance
        self._closing = closing
        self._room = BoundedSemaphore(SIZE)
        self._lock = Lock()
        self._idle: list[Connection] = []

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of the answer; a question that met a lost connection is asked again."""
        backoff = Backoff(self._chance, self._closing, PATIENCE_SECONDS)
        while True:
            try:
                with self.connection() as conn:
                    return conn.execute(statement.encode(), parameters, binary=True).fetchall()
            except psycopg.Error as error:
                if not isinstance(error, psycopg.OperationalError) or not backoff.pause():
                    raise unavailable(self._address, error) from error
            except StoreUnavailable:
                # Only a server that was there before is waited for: a wrong address should be told at once.
                if backoff.fresh or not backoff.pause():
                    raise

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One connection to oneself."""
        with self._room:
            with self._lock:
                conn = self._idle.pop() if self._idle else None
            conn = conn or connect(self._address)
            try:
                yield conn
            except BaseException:
                # What broke this one has most likely broken the others too.
                conn.close()
                self.close()
                raise
            with self._lock:
                self._idle.append(conn)

    def close(self) -> None:
        """Close what is not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for conn in idle:
            conn.close()
