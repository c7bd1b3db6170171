import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.verify import verify
from headgate.engine.replay import EMPTY, JournalBroken, Tables, check_journal, differences, replay
from headgate.engine.writer import Writer
from headgate.ports import EndRow, JournalRow
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing import SeededChance, job, worker
from tests.engine.walking import WriterWalk, tables

SEEDS = range(1, 13)
COMMANDS = 260


class Walk(WriterWalk):
    """Keeps the tables as they were after every commit."""

    def __init__(self, seed: int) -> None:
        self.at_commit = {0: Tables()}
        super().__init__(seed)

    def go(self, commands: int) -> None:
        for _ in self.accepted(commands):
            verify(self.writer.state)
            if self.walk.chance.random() < 0.4:
                self.commit()
            if self.walk.chance.random() < 0.02:
                self.open()
                verify(self.writer.state)

    def commit(self) -> None:
        self.writer.flush()
        if self.walk.chance.random() < 0.3:
            self.writer.index()
        self.at_commit[self.disk.mark.number] = tables(self.disk)

    def journal(self, after: int = 0) -> list[JournalRow]:
        return list(MemoryStore(self.disk).journal(after))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_journal_replayed_from_any_commit_rebuilds_the_tables_exactly(seed: int) -> None:
    walk = Walk(seed)
    walk.go(COMMANDS)
    walk.commit()
    stored = tables(walk.disk)
    assert len(stored.ends) > 10
    for number, base in walk.at_commit.items():
        assert differences(replay(base, walk.journal(number), stored), stored) == [], f"from commit {number}"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_journal_replayed_up_to_any_commit_gives_the_tables_of_that_commit(seed: int) -> None:
    walk = Walk(seed)
    walk.go(COMMANDS)
    walk.commit()
    content = tables(walk.disk)
    for number, then in walk.at_commit.items():
        journal = [row for row in walk.journal() if row.number <= number]
        rebuilt = replay(Tables(), journal, content)
        # Results stand in the row of the end, so they are there as soon as the end is.
        assert differences(rebuilt, then) == [], f"up to commit {number}"


def committed(jobs: int = 3) -> tuple[MemoryDisk, Writer]:
    disk = MemoryDisk()
    writer = Writer(MemoryStore(disk), FirstFit(), SeededChance(1))
    writer.open(1_000)
    for number in range(jobs):
        writer.accept(c.Submit((c.NewJob(f"j{number}", job(f"job {number}")),)), 1_000 + number, lambda _: None)
        writer.flush()
    return disk, writer


def test_a_store_agrees_with_its_journal() -> None:
    _, writer = committed()
    assert check_journal(writer.store, EMPTY._replace(seq=3, low_water=1)) == []


def test_a_row_that_was_tampered_with_is_named() -> None:
    disk, writer = committed()
    writer.accept(c.Cancel("j1", "not wanted"), 2_000, lambda _: None)
    writer.flush()
    disk.ends[2] = disk.ends[2]._replace(state="completed")
    (problem,) = check_journal(writer.store, disk.mark)
    assert problem.startswith("end 2: ")
    assert "cancelled" in problem
    assert "completed" in problem


def test_a_job_that_vanished_from_the_store_is_told_from_one_that_never_was() -> None:
    disk, writer = committed()
    rebuilt = replay(Tables(), writer.store.journal(), tables(disk))
    del disk.jobs[2]
    assert differences(rebuilt, tables(disk))[0].startswith("job 2: ")


def test_jobs_that_were_deleted_for_their_age_are_left_out() -> None:
    disk, writer = committed()
    writer.accept(c.Cancel("j0"), 2_000, lambda _: None)
    writer.flush()
    deleted(writer)
    assert 1 not in disk.jobs
    assert check_journal(writer.store, disk.mark) == []


def test_a_lease_of_a_deleted_job_still_counts_among_those_given_out() -> None:
    disk, writer = committed(1)
    writer.accept(c.RegisterWorker(worker("w")), 1_000, lambda _: None)
    writer.accept(c.SampleLoad("host", {"cpu": 0.1}), 1_000, lambda _: None)
    writer.cycle(1_000)
    (lease,) = writer.state.leases.values()
    writer.accept(c.Release(lease.id, lease.token), 1_100, lambda _: None)
    writer.accept(c.Cancel("j0"), 1_200, lambda _: None)
    writer.flush()
    deleted(writer)
    assert (disk.mark.tokens, disk.jobs) == (1, {})
    assert check_journal(writer.store, disk.mark) == []


def test_an_id_that_comes_again_after_its_job_was_deleted_is_another_job() -> None:
    disk, writer = committed(1)
    writer.accept(c.Cancel("j0"), 2_000, lambda _: None)
    writer.flush()
    deleted(writer)
    writer.accept(c.Submit((c.NewJob("j0", job("again")),)), 20_000, lambda _: None)
    writer.flush()
    assert [row.id for row in disk.jobs.values()] == ["j0"]
    assert check_journal(writer.store, disk.mark) == []


def deleted(writer: Writer) -> None:
    """Delete every job that has ended."""
    while writer.index_backlog:
        writer.index()
    for gone in writer.sweep(Retention(jobs=1_000), 10_000):
        assert writer.drop(gone)


def test_the_number_of_the_last_lease_outlives_the_job_that_held_it() -> None:
    disk = MemoryDisk()
    writer = Writer(MemoryStore(disk), FirstFit(), SeededChance(1), Settings(fixed_busy=0))
    writer.open(1_000)
    writer.accept(c.RegisterWorker(worker("w")), 1_000, lambda _: None)
    writer.accept(c.Submit((c.NewJob("j0", job("done")),)), 1_000, lambda _: None)
    writer.cycle(1_000)
    (lease,) = writer.state.leases.values()
    writer.accept(c.Start(lease.id, lease.token), 1_000, lambda _: None)
    writer.accept(c.Complete(lease.id, lease.token, b"1"), 1_000, lambda _: None)
    writer.flush()
    while writer.index_backlog:
        writer.index()
    assert [writer.drop(gone) for gone in writer.sweep(Retention(jobs=1_000), 10_000)] == [True]
    assert disk.mark.tokens == 1
    assert check_journal(writer.store, disk.mark) == []


def test_a_journal_without_its_beginning_is_refused_by_name() -> None:
    disk, writer = committed(1)
    writer.accept(c.Cancel("j0"), 2_000, lambda _: None)
    writer.flush()
    with pytest.raises(JournalBroken, match="commit 2") as caught:
        replay(Tables(), writer.store.journal(after=1), tables(disk))
    assert caught.value.number == 2


def test_a_result_that_is_not_the_committed_one_is_found() -> None:
    walk = Walk(3)
    walk.go(COMMANDS)
    walk.commit()
    seq = next(seq for seq, end in walk.disk.ends.items() if end.result is not None)
    walk.disk.ends[seq] = walk.disk.ends[seq]._replace(result=b"3")
    with pytest.raises(JournalBroken, match="not the one that was committed"):
        replay(Tables(), walk.journal(), tables(walk.disk))


def test_a_row_of_an_earlier_version_may_lack_fields_that_came_later() -> None:
    rebuilt, stored = Tables(), Tables()
    end = EndRow(1, "failed", 5, 1, None, None, None, None, None, None, msgspec.msgpack.encode(["c", "m", "", 3]), None)
    rebuilt.ends[1] = end
    for error, same in (
        (["c", "m", ""], True),
        (["c", "other", ""], False),
        (["c", "m", "", 3, 4], False),
        (None, False),
    ):
        stored.ends[1] = end._replace(error=None if error is None else msgspec.msgpack.encode(error))
        assert (differences(rebuilt, stored) == []) is same, error
