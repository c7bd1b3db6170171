"""What deleting the old costs the others: submissions to an engine on SQLite, alone and while a backlog is deleted.

    python -m bench.bench_retention [--quick]

Two threads submit one job after the other and note how long each took. First nobody else is there, then the engine
deletes a long history at the pace of its own sweeps. Commits are durable, on the disk of the working directory.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import count
from pathlib import Path
from threading import Event, Thread

import msgspec

from bench.report import Table, at_most, seconds
from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.engine import compacting
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.stores.sqlite import SqliteStore
from headgate.system import SystemChance, SystemClock
from headgate.testing import job

CLIENTS = 2
_FAR_AHEAD = 10_000_000
SETTINGS = Settings(fixed_busy=10, retain_finished=1_000)


class Submitting:
    """Threads that submit until told to stop, and how long each submission took."""

    def __init__(self, engine: SharedEngine, numbers: count[int]) -> None:
        self._engine, self._numbers, self._enough = engine, numbers, Event()
        self.took: list[float] = []
        self._threads = [Thread(target=self._go_on) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _go_on(self) -> None:
        spec = job("job")
        while not self._enough.is_set():
            new = c.NewJob(f"new-{next(self._numbers):012}", spec)
            self.took.append(seconds(lambda new=new: self._engine.do(c.Submit((new,)))))  # type: ignore[misc]

    def stop(self) -> list[float]:
        self._enough.set()
        for thread in self._threads:
            thread.join()
        return sorted(self.took)


def with_history(path: Path, size: int) -> None:
    """A database with so many ended jobs."""
    engine = SharedEngine(Writer(SqliteStore(path), FirstFit(), SystemChance(), SETTINGS), SystemClock()).start()
    for start in range(0, size, 1_000):
        names = [f"old-{number:09}" for number in range(start, start + 1_000)]
        engine.do(c.Submit(tuple(c.NewJob(name, job("job", payload={"text": "x" * 100})) for name in names)))
        engine.do_all([c.Cancel(name) for name in names])
    engine.stop()


def spell(path: Path, retention: Retention, numbers: count[int], spell_seconds: float) -> tuple[list[float], int]:
    """Latencies of a spell, and how many jobs were deleted in it."""
    settings = msgspec.structs.replace(SETTINGS, retention=retention)
    engine = SharedEngine(Writer(SqliteStore(path), FirstFit(), SystemChance(), settings), SystemClock()).start()
    before = sum(engine.writer.store.counts().values())
    submitting = Submitting(engine, numbers)
    Event().wait(spell_seconds)
    took = submitting.stop()
    left = sum(engine.writer.store.counts().values())
    engine.stop()
    return took, before + len(took) - left


def row(table: Table, label: str, took: list[float], deleted: int, spell_seconds: float, limit: float | None) -> None:
    p50, p99, longest = (1_000 * took[min(len(took) - 1, int(len(took) * share))] for share in (0.5, 0.99, 1.0))
    goals = [] if limit is None else [at_most(longest, limit, " ms longest")]
    table.add(label, len(took) / spell_seconds, p50, p99, longest, deleted / spell_seconds, goals=goals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a shorter history")
    quick = parser.parse_args().quick
    size, spell_seconds, numbers = (20_000, 3.0, count()) if quick else (100_000, 15.0, count())
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "headgate.db"
        with_history(path, size)
        columns = ["submissions/s", "median, ms", "p99, ms", "longest, ms", "deleted/s"]
        table = Table(f"one submission after the other, {size:,} ended jobs, {compacting.MOST} deleted a step", columns)
        row(
            table,
            "nothing is deleted",
            *spell(path, Retention(jobs=_FAR_AHEAD), numbers, spell_seconds),
            spell_seconds,
            None,
        )
        row(
            table,
            "the old is deleted",
            *spell(path, Retention(jobs=0, events=0), numbers, spell_seconds),
            spell_seconds,
            250,
        )
        table.show()


if __name__ == "__main__":
    main()
