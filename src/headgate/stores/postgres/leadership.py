"""One leader at a time: a lock says who leads now, the epoch says whose commits count.

The lock belongs to the leader's connection, so the server lets go of it when that connection dies, and only after the
connection's last statement has ended. Whoever holds the lock therefore sees what became of every commit before.
The epoch guards against the leader that does not know yet that its connection died: its commits no longer match.
"""

from __future__ import annotations

from threading import Event
from typing import Any, Final

import psycopg

from headgate.ports import Chance, CommitFailed, Deposed, Mark, StoreDamaged, StoreOwned, StoreUnavailable
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.backoff import Backoff
from headgate.stores.postgres.connecting import Connection, Statements, connect, unavailable
from headgate.stores.postgres.schema import migrate

POLL_SECONDS: Final = 0.5

_LOCK: Final = "pg_try_advisory_lock(hashtextextended(%s, 0))"
_UNLOCK: Final = "pg_advisory_unlock(hashtextextended(%s, 0))"
_WHO: Final = "SELECT owner, epoch, extract(epoch FROM clock_timestamp() - heartbeat)::bigint FROM meta"
_TAKE: Final = """
WITH taken AS (
    UPDATE meta SET epoch = epoch + 1, owner = %s, heartbeat = clock_timestamp()
    RETURNING epoch, number, seq, tokens, indexed, low_water, commits, owner
), noted AS (
    INSERT INTO leadership (epoch, owner, since, commits) SELECT epoch, owner, clock_timestamp(), commits FROM taken
)
SELECT epoch, number, seq, tokens, indexed, low_water, commits FROM taken
"""
# The number of commits when the next leader came: whether ours was among them.
_SUCCEEDED: Final = "SELECT commits FROM leadership WHERE epoch > %s ORDER BY epoch LIMIT 1"
_BACKEND: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_BACKEND: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"


LEAVING_TRIES = 6
LEAVING_SECONDS = 0.05
"""A leader that has just closed its connection holds the lock until the server has noticed."""


DYING_TRIES = 20
DYING_SECONDS = 0.003
"""A connection that was cut in the middle of a commit ends when that has ended."""


class Leadership:
    """The leader's connection, its epoch, and how many commits the database had taken when last heard of."""

    def __init__(self, address: Address, owner: str, chance: Chance, closing: Event, patience_seconds: float) -> None:
        self._address = address
        self._owner = owner
        self._chance = chance
        self._closing = closing
        self._patience_seconds = patience_seconds
        self._lock = f"headgate:{address.schema}"
        self._backend: tuple[Any, ...] = ()
        self._conn: Connection | None = None
        self._statements: Statements | None = None
        self._ousted: Deposed | None = None
        self.epoch = 0
        self.commits = 0
        self.commit_channel = f"{address.schema}_commit"
        self.leader_channel = f"{address.schema}_leader"

    @property
    def connection(self) -> Connection:
        if self._ousted is not None:
            raise self._ousted
        if self._conn is None:
            raise StoreUnavailable(f"{self._address.name}: the store is not open")
        return self._conn

    @property
    def statements(self) -> Statements:
        if self._statements is None or self._statements.conn is not self.connection:
            raise StoreUnavailable(f"{self._address.name}: the store is not open")
        return self._statements

    def take(self, wait: bool) -> Mark:
        """Become the leader: at once, or when the one there is has gone."""
        self._ousted = None
        conn = connect(self._address)
        patience = LEAVING_TRIES
        while True:
            try:
                if self._try_lock(conn):
                    return self._raise_epoch(conn)
                patience -= 1
                if patience < 0 or self._closing.wait(LEAVING_SECONDS):  # the one there may be on its way out
                    self._linger(conn, wait)
            except psycopg.Error as error:
                conn.close()
                if not (wait and isinstance(error, psycopg.OperationalError)):
                    raise unavailable(self._address, error) from error
                conn = self._reconnected()
            except BaseException:
                conn.close()
                raise

    def release(self, goodbye: bool) -> None:
        """Let go of the lock, and tell those who wait if there is still somebody to tell."""
        conn, self._conn = self._conn, None
        if conn is None:
            return
        try:
            if goodbye and not conn.closed:
                conn.execute(f"SELECT {_UNLOCK}, pg_notify(%s, 'released')".encode(), (self._lock, self.leader_channel))
        except psycopg.Error:
            pass  # the server is gone, and the lock with it
        finally:
            conn.close()

    def regain(self) -> bool:
        """After a lost connection: come back as the same leader, and say whether the commit under way had landed.

        Raises `Deposed` if another leader came before it, `CommitFailed` if the server does not answer in time.
        """
        self.release(goodbye=False)
        backoff = Backoff(self._chance, self._closing, self._patience_seconds)
        last = "the connection was lost"
        while backoff.pause():
            try:
                commits = self._come_back()
            except (psycopg.Error, StoreUnavailable) as error:
                last = self._address.redact(error)
                continue
            if commits is not None:
                landed, self.commits = commits > self.commits, commits
                return landed
            last = "another connection holds the lock of the leader"
        raise CommitFailed(f"{self._address.name}: the outcome of the commit is unknown: {last}")

    # -- the steps ------------------------------------------------------------------------------------------------

    def _come_back(self) -> int | None:
        """The number of commits as the leader again, or none while the lock is not to be had."""
        conn = connect(self._address)
        try:
            # A connection that we lost may live on at the server's end, lock and all.
            conn.execute(_END_BACKEND, self._backend)
            locked = self._lock_soon(conn)
            row = conn.execute("SELECT epoch, commits FROM meta").fetchone()
            if row is None or row[0] != self.epoch:
                return self._succeeded(conn)
            if not locked:
                conn.close()
                return None
            self._adopt(conn)
        except BaseException:
            conn.close()
            raise
        return int(row[1])

    def _succeeded(self, conn: Connection) -> int:
        """Another one leads. What it found when it came tells whether our last commit was there."""
        row = conn.execute(_SUCCEEDED, (self.epoch,)).fetchone()
        self._ousted = self._deposed(conn)
        conn.close()
        if row is None or row[0] <= self.commits:
            raise self._ousted
        return int(row[0])

    def step_down(self) -> Deposed:
        """The fence refused a commit: let go, and say who leads now."""
        self._ousted = self._deposed(self.connection)
        self.release(goodbye=False)
        return self._ousted

    def _deposed(self, conn: Connection) -> Deposed:
        row = conn.execute(_WHO).fetchone()
        new = f"{row[0]} (epoch {row[1]})" if row else "another engine"
        return Deposed(f"{self._address.name}: {new} took over from this engine (epoch {self.epoch})")

    def _adopt(self, conn: Connection) -> None:
        conn.execute("UNLISTEN *")
        # The planner takes `meta` for the single row it is, and would read all of its old versions for each commit.
        conn.execute("SET enable_seqscan = off")
        self._backend = conn.execute(_BACKEND).fetchone() or (0, None)
        self._conn = conn
        self._statements = Statements(conn)

    def _try_lock(self, conn: Connection) -> bool:
        return conn.execute(f"SELECT {_LOCK}".encode(), (self._lock,)).fetchone() == (True,)

    def _lock_soon(self, conn: Connection) -> bool:
        """The lock, as soon as the connection that was cut has let go of it: a new one costs more than to ask again."""
        for _ in range(DYING_TRIES):
            if self._try_lock(conn):
                return True
            if self._closing.wait(DYING_SECONDS):
                break
        return False

    def _raise_epoch(self, conn: Connection) -> Mark:
        migrate(conn, self._address)
        row = conn.execute(_TAKE, (self._owner,)).fetchone()
        if row is None:
            raise StoreDamaged(f"{self._address.name}: the row that says where the store stands is missing")
        self._adopt(conn)
        self.epoch, self.commits = row[0], row[6]
        return Mark(*row[:6])

    def _who(self, conn: Connection) -> str:
        try:
            row = conn.execute(_WHO).fetchone()
        except psycopg.errors.UndefinedTable:
            row = None  # it is about to make its tables
        if row is None:
            return "another engine is about to own it"
        return f"owned by {row[0]} (epoch {row[1]}, last heard of {row[2]} s ago)"

    def _linger(self, conn: Connection, wait: bool) -> None:
        """Wait for a while, less if told that the leader left. The message is a hint: it may never come."""
        if not wait:
            raise StoreOwned(f"{self._address.name}: {self._who(conn)}")
        if self._closing.is_set():
            raise StoreUnavailable(f"{self._address.name}: the store was closed while it waited to lead")
        conn.execute(f'LISTEN "{self.leader_channel}"'.encode())
        for _ in conn.notifies(timeout=POLL_SECONDS, stop_after=1):
            pass

    def _reconnected(self) -> Connection:
        """A standby has all the time in the world: only closing the store ends its patience."""
        backoff = Backoff(self._chance, self._closing, float("inf"))
        while backoff.pause():
            try:
                return connect(self._address)
            except StoreUnavailable:
                continue
        raise AssertionError("endless patience ended")
