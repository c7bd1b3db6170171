"""Ownership of a database file: an exclusive lock on `<file>.lock`, whose content says who holds it.

The operating system lets go of the lock when the process ends, however it ends; the file stays, so that it belongs to
whoever made the database. It is removed only by a holder who made it for a database that then could not be opened: a
process that has just opened it sees that it is gone, and begins anew.
"""

from __future__ import annotations

import fcntl
import os
import socket
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headgate.ports import StoreOwned, StoreUnavailable


class Holder(msgspec.Struct, frozen=True):
    """Who holds a database, and since when."""

    pid: int
    host: str
    since: str
    server: bool = False
    """Whether it serves by HTTP, and nobody through the file."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}{', a server' if self.server else ''}"


class OwnerLock:
    """The lock of one database file. A process that is forked off does not inherit it."""

    def __init__(self, database: Path, *, server: bool = False) -> None:
        self.path = database.with_name(database.name + ".lock")
        self._database = database
        self._server = server
        self._descriptor: int | None = None
        self._made = False

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the lock, or raise `StoreOwned` with the name of the holder."""
        while self._descriptor is None:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise self._owned() from None
            if self._still_there(descriptor):
                self._keep(descriptor)
            else:
                os.close(descriptor)

    def _owned(self) -> StoreOwned:
        holder = self.holder()
        server = holder is not None and holder.server
        return StoreOwned(f"{self._database} is owned by {holder or 'another process'}", server=server)

    def release(self) -> None:
        """Let go. The file stays, empty."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self.abandon()

    def withdraw(self) -> None:
        """Let go, and leave no file where none was before."""
        if self._descriptor is not None and self._made:
            self.path.unlink(missing_ok=True)
        self.release()

    def abandon(self) -> None:
        """Forget the lock without a trace, as a killed process does."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> Holder | None:
        """Who wrote their name into the file, if it can be read."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Holder)
        except (OSError, msgspec.MsgspecError):
            return None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            with suppress(FileExistsError):
                descriptor = os.open(self.path, flags | os.O_EXCL, 0o644)
                self._made = True
                return descriptor
            self._made = False
            return os.open(self.path, flags, 0o644)
        except OSError as error:
            raise StoreUnavailable(f"{self._database}: cannot lock it: {error.strerror}: {self.path}") from error

    def _still_there(self, descriptor: int) -> bool:
        """Whether the file was not removed or replaced between its opening and its locking."""
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _keep(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _held.add(self)
        os.ftruncate(descriptor, 0)
        # The file's own time is the time of locking: nobody here has to ask a clock.
        since = datetime.fromtimestamp(int(os.fstat(descriptor).st_mtime), tz=UTC).isoformat()
        name = msgspec.json.encode(Holder(os.getpid(), socket.gethostname(), since, self._server))
        with suppress(OSError):  # a full disk: the lock holds without the name in it
            os.pwrite(descriptor, name, 0)


_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()


def _abandon_all() -> None:
    for lock in list(_held):
        lock.abandon()


os.register_at_fork(after_in_child=_abandon_all)
