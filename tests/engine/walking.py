"""A random walk through a writer on a disk in memory, for tests of what is left on it."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.core.errors import HeadgateError
from headgate.core.ordering import FirstFit
from headgate.engine.replay import Tables
from headgate.engine.writer import Writer
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing import SeededChance
from headgate.testing.walk import SMALL, RandomWalk


def tables(disk: MemoryDisk) -> Tables:
    """What is on the disk."""
    found = Tables(disk.mark)
    found.jobs, found.statuses, found.leases = dict(disk.jobs), dict(disk.statuses), dict(disk.leases)
    found.ends, found.places = dict(disk.ends), dict(disk.documents)
    return found


class WriterWalk:
    """Carries out what a random walk draws; opening anew loses whatever was not committed."""

    def __init__(self, seed: int) -> None:
        self.disk = MemoryDisk()
        self.walk = RandomWalk(seed)
        self.open()

    def open(self) -> None:
        self.writer = Writer(MemoryStore(self.disk), FirstFit(), SeededChance(1), SMALL, pause=10**12)
        self.writer.open(self.walk.now)
        self.walk.state = self.writer.state

    def accepted(self, commands: int) -> Iterator[None]:
        """Draw so many commands; a step for each that was not refused."""
        for _ in range(commands):
            command, now = self.walk.next()
            try:
                self.writer.accept(command, now, lambda _: None)
            except HeadgateError:
                continue
            yield
