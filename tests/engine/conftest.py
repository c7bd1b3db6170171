"""An engine in a test: a disk in memory that can be told to fail, a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.engine.failpoints import Hook
from headgate.engine.writer import Writer
from headgate.ports import Batch, CommitFailed
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing import ManualClock, SeededChance

OPEN = Settings(fixed_busy=0, total_units=1_000)


class FaultyStore(MemoryStore):
    """A store whose next write or seal can be made to fail."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.fail_write: Exception | None = None
        self.fail_seal: Exception | None = None
        self.seals = 0

    def write(self, batch: Batch) -> None:
        if self.fail_write is not None:
            raise self.fail_write
        super().write(batch)

    def seal(self) -> None:
        if self.fail_seal is not None:
            raise self.fail_seal
        super().seal()
        self.seals += 1


MakeWriter = Callable[..., Writer]


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_writer(disk: MemoryDisk, clock: ManualClock) -> MakeWriter:
    def make(settings: Settings = OPEN, failpoint: Hook | None = None, *, opened: bool = True) -> Writer:
        writer = Writer(FaultyStore(disk), FirstFit(), SeededChance(7), settings, failpoint=failpoint)
        if opened:
            writer.open(clock.now())
        return writer

    return make


def disk_full() -> CommitFailed:
    return CommitFailed("no space left on the disk")
