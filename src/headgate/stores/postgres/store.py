"""The store itself: the port's methods, and what a commit does when the connection breaks under it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Final

import psycopg

from headgate.core.states import JobState
from headgate.ports import (
    Batch,
    Chance,
    CommitFailed,
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
    StoreUnavailable,
)
from headgate.stores.postgres import dump, history, loading, upkeep
from headgate.stores.postgres.address import parse_address
from headgate.stores.postgres.commit import Pending, Prepared
from headgate.stores.postgres.connecting import describe, is_lost, unavailable
from headgate.stores.postgres.leadership import Leadership
from headgate.stores.postgres.readers import Readers

# A commit whose connection broke is sent again. One that breaks every connection is no accident.
MOST_SENDINGS: Final = 10
PATIENCE_SECONDS: Final = 30.0


class PostgresStore:
    """A store in a Postgres database: `postgresql://user@host/database`, with `?schema=` where it is not `headgate`."""

    def __init__(self, url: str, chance: Chance, owner: str = "", patience_seconds: float = PATIENCE_SECONDS) -> None:
        """`owner` is the name that others are told; `patience` how long a commit waits for a lost server."""
        self._address = parse_address(url)
        self.name = self._address.name
        self._closing = Event()
        self._leadership = Leadership(self._address, owner or _process(), chance, self._closing, patience_seconds)
        self._readers = Readers(self._address, chance, self._closing)
        self._pending = Pending()
        self._prepared: Prepared | None = None

    # -- the owner --------------------------------------------------------------------------------------------

    def open(self, wait: bool = False) -> Mark:
        """Become the leader. With one there already: raise `StoreOwned`, or wait until it has gone."""
        self.close()
        self._closing.clear()
        return self._leadership.take(wait)

    def standby(self) -> Mark:
        """Wait until there is no leader, then become it. `close` from another thread ends the wait."""
        return self.open(wait=True)

    def live_jobs(self) -> Iterator[LiveJob]:
        try:
            yield from loading.live_jobs(self._leadership.connection)
        except psycopg.Error as error:
            raise unavailable(self._address, error) from error

    def recent_ends(self, limit: int) -> list[EndedJob]:
        try:
            return loading.recent_ends(self._leadership.connection, limit)
        except psycopg.Error as error:
            raise unavailable(self._address, error) from error

    def documents(self) -> Iterator[DocumentRow]:
        try:
            return loading.documents(self._leadership.connection)
        except psycopg.Error as error:
            raise unavailable(self._address, error) from error

    def write(self, batch: Batch) -> None:
        """Pack the batch. The first of a commit is packed here, so that `seal` in a thread has little left to do."""
        _ = self._leadership.connection
        first = not self._pending
        self._pending.add(batch)
        self._prepared = self._prepare() if first else None

    def seal(self) -> None:
        if not self._pending:
            return
        prepared = self._prepared or self._prepare()
        self._forget_pending()
        try:
            self._send(prepared)
        except StoreUnavailable as error:
            self._leadership.release(goodbye=False)
            raise CommitFailed(f"the outcome of the commit is unknown: {error}") from error
        except BaseException:
            self._leadership.release(goodbye=False)
            raise

    def _prepare(self) -> Prepared:
        try:
            return self._pending.prepare()
        except (UnicodeError, struct.error) as error:
            self._forget_pending()
            self._leadership.release(goodbye=False)
            raise CommitFailed(f"{self.name}: a value that Postgres cannot hold: {error}") from error

    def _send(self, prepared: Prepared) -> None:
        """One round trip. If the connection breaks, find out whether it landed; if it did not, send it again."""
        for _ in range(MOST_SENDINGS):
            try:
                self._send_once(prepared)
                return
            except psycopg.Error as error:
                if not is_lost(self._leadership.connection, error):
                    raise CommitFailed(f"{self.name}: {describe(self._address, error)}") from error
                if self._leadership.regain():
                    return
        raise CommitFailed(f"{self.name}: the commit broke the connection {MOST_SENDINGS} times; it was not made")

    def _send_once(self, prepared: Prepared) -> None:
        leadership = self._leadership
        parameters = prepared.parameters(leadership.commits, leadership.commit_channel)
        if leadership.statements.run(prepared.statement, parameters) == 0:
            raise leadership.step_down()
        leadership.commits += 1

    def _forget_pending(self) -> None:
        self._pending = Pending()
        self._prepared = None

    def close(self) -> None:
        self._closing.set()
        self._forget_pending()
        self._leadership.release(goodbye=True)
        self._readers.close()

    # -- history ----------------------------------------------------------------------------------------------

    def find_jobs(self, query: JobQuery) -> list[JobView]:
        return history.find_jobs(self._readers, query)

    def get_job(self, job_id: str) -> JobView | None:
        return history.get_job(self._readers, job_id)

    def states_of(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        return history.states_of(self._readers, job_ids)

    def find_keys(self, keys: Iterable[Key]) -> dict[Key, JobRow]:
        return history.find_keys(self._readers, keys)

    def counts(self) -> dict[tuple[JobState, int], int]:
        return history.counts(self._readers)

    def events_of(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[EventRow]:
        return history.events_of(self._readers, job_id, after, limit)

    def journal(self, after: int = 0) -> Iterator[JournalRow]:
        return history.journal(self._readers, after)

    def entries(self, since: int = 0, until: int | None = None, after: int = 0, limit: int = 1_000) -> list[JournalRow]:
        return history.entries(self._readers, since, until, after, limit)

    def records(
        self, kind: str, since: int = 0, until: int | None = None, key: str | None = None, limit: int = 1_000,
        *, newest: bool = False,
    ) -> list[RecordRow]:  # fmt: skip
        return history.records(self._readers, kind, since, until, key, limit, newest=newest)

    # -- upkeep -----------------------------------------------------------------------------------------------

    def old_ends(self, before: int, after: tuple[int, int] = (-1, 0), limit: int = 1_000) -> list[OldEnd]:
        return history.old_ends(self._readers, before, after, limit)

    def old_entries(self, before: int, limit: int = 1_000) -> list[int]:
        return history.old_entries(self._readers, before, limit)

    def old_records(self, kind: str, before: int, limit: int = 1_000) -> list[tuple[int, int]]:
        return history.old_records(self._readers, kind, before, limit)

    def shrink(self, spare: float) -> bool:  # noqa: ARG002 - the server does it, when it sees fit
        return False

    def backup(self, target: str) -> None:
        dump.backup(self._address, target)

    def check(self) -> list[str]:
        return upkeep.check(self._readers)


def _process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
