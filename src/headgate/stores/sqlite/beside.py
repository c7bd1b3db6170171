"""Looking for damage beside other work: SQLite reads through the file in a thread while the state is rebuilt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headgate.ports import StoreDamaged, StoreError
from headgate.stores.sqlite.connect import connect_reader, opening
from headgate.stores.sqlite.schema import missing_from
from headgate.stores.sqlite.upkeep import damage_of

R = TypeVar("R")
_AGAIN = 0.01


def while_checking(path: Path, vfs: str | None, work: Callable[[], R]) -> R:
    """What the work comes to, once the file is known to be sound. Damage is told whatever became of the work."""
    check = _Check(path, vfs)
    check.start()
    try:
        done = work()
    except Exception:
        check.finish()
        raise
    except BaseException:
        check.give_up()
        raise
    check.finish()
    return done


class _Check(threading.Thread):
    """One look through the whole file, on a connection of its own."""

    def __init__(self, path: Path, vfs: str | None) -> None:
        super().__init__(name="headgate-check", daemon=True)
        self._path = path
        self._connection = connect_reader(path, vfs)
        self._found: StoreError | None = None

    def run(self) -> None:
        """Keep what is wrong for whoever waits."""
        try:
            with opening(self._path):
                self._look()
        except StoreError as error:
            self._found = error

    def _look(self) -> None:
        damage = damage_of(self._connection, "quick_check") or missing_from(self._connection)
        if damage:
            first = damage if isinstance(damage, str) else damage[0]
            raise StoreDamaged(f"{self._path}: the database is damaged: {first}")

    def finish(self) -> None:
        """Wait for the end, and raise what was found."""
        self._end()
        if self._found is not None:
            raise self._found

    def give_up(self) -> None:
        """The process is to end: do not make it wait for a large file."""
        while self.is_alive():  # a word that comes before the look has begun is not heard
            self._connection.interrupt()
            self.join(_AGAIN)
        self._end()

    def _end(self) -> None:
        self.join()
        self._connection.close()
