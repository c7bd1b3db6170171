"""Room in the log, made ahead of the commits that fill it.

A sync that makes the log longer also has to write down its new length, which takes as long again as the rest of a
small commit. A log that has once been full is written over and stays as long as it is; until then zeros are put behind
its end a piece at a time. Whoever reads the log stops at the first frame that is not of it, so zeros are as good as
nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

_FRAME: Final = 24
"""Bytes before each page in the log."""
_PIECE: Final = 1 << 18
_AHEAD: Final = 32
"""Pages that a commit finds room for; one with more makes its own."""


class LogRoom:
    """Keeps the log of a writing connection longer than what it holds, up to the length at which it is emptied."""

    def __init__(self, connection: apsw.Connection, database: Path) -> None:
        self._connection = connection
        self._path = database.with_name(database.name + "-wal")
        self._frame = int(connection.pragma("page_size")) + _FRAME
        self._most = (int(connection.pragma("wal_autocheckpoint")) + _AHEAD) * self._frame
        self.emptied()

    def emptied(self) -> None:
        """The log was moved into the file and cut off."""
        self._length = 0
        with suppress(OSError):
            self._length = self._path.stat().st_size
        self._held = self._length - self._written()
        """What the log is taken to hold, less what was written since: never less than what it holds."""

    def make(self) -> None:
        """Make room for the next commit. Only inside a write transaction: then nobody else writes to the log."""
        if self._length >= self._most:
            return
        wanted = self._held + self._written() + _AHEAD * self._frame
        if wanted > self._length:
            try:
                self._length = _grown(self._path, wanted, self._most)
            except OSError:  # no room on the disk, perhaps: what a commit needs it asks for itself
                self._length = self._most

    def _written(self) -> int:
        pages, _ = self._connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        return pages * self._frame


def _grown(path: Path, wanted: int, most: int) -> int:
    """Put zeros behind the end of a file unless it is long enough by itself; returns its length."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        length = os.fstat(descriptor).st_size
        if length < wanted:
            length += os.pwrite(descriptor, bytes(min(_PIECE, max(0, most - length))), length)
        return length
    finally:
        os.close(descriptor)
