from pathlib import Path

import pytest

from headgate.ports import CommitFailed, Deposed, Store, StoreError
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing.store_conformance import StoreConformance, Writer, job_row


class MemoryHome:
    """A disk in memory; handles come and go."""

    backs_up = False

    def __init__(self, path: Path) -> None:
        self.disk = MemoryDisk()
        self.path = path

    def store(self) -> Store:
        return MemoryStore(self.disk)

    def crash(self, store: Store) -> None:
        """Memory has nothing to tidy up: the handle is just never used again."""

    def usurper(self) -> Store:
        return MemoryStore(self.disk)

    def backup_target(self) -> str:
        return str(self.path / "copy")

    def from_backup(self, target: str) -> Store:
        raise NotImplementedError


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def home(self, tmp_path: Path) -> MemoryHome:
        return MemoryHome(tmp_path)


def test_a_store_without_a_disk_has_one_of_its_own() -> None:
    first, second = Writer(MemoryStore()), Writer(MemoryStore())
    first.commit(jobs=[job_row(1)])
    assert list(second.store.live_jobs()) == []


def test_a_closed_store_takes_no_batch() -> None:
    writer = Writer(MemoryStore())
    writer.store.close()
    with pytest.raises(StoreError, match="not open"):
        writer.commit(jobs=[job_row(1)])


def test_two_jobs_of_one_id_in_one_batch_change_nothing() -> None:
    disk = MemoryDisk()
    writer = Writer(MemoryStore(disk))
    with pytest.raises(CommitFailed, match="same"):
        writer.commit(jobs=[job_row(1, id="same"), job_row(2, id="same")])
    assert disk.jobs == {}


def test_a_deposed_engine_learns_both_epochs() -> None:
    disk = MemoryDisk()
    writer = Writer(MemoryStore(disk))
    MemoryStore(disk).open()
    with pytest.raises(Deposed, match="epoch 2, this engine is of epoch 1"):
        writer.commit(jobs=[job_row(1)])
