"""The log beside a SQLite file: room is made ahead in it, and what was not written by a commit counts for nothing."""

import shutil
from pathlib import Path

import apsw
import pytest

from headgate.stores.sqlite import SqliteStore
from headgate.stores.sqlite.connect import CHECKPOINT_PAGES
from headgate.stores.sqlite.log import LogRoom
from headgate.testing.store_conformance import Writer, job_row
from tests.stores.sqlite_home import SqliteHome


@pytest.fixture
def home(directory: Path) -> SqliteHome:
    return SqliteHome(directory)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def seqs(store: SqliteStore) -> list[int]:
    return [live.seq for live in store.live_jobs()]


def test_commits_find_room_in_the_log_and_do_not_make_it_longer(home: SqliteHome) -> None:
    writer = Writer(home.at(home.path))
    writer.commit(jobs=[job_row(1)], journal=b"x")
    length = log_of(home.path).stat().st_size
    for seq in range(2, 6):
        writer.commit(jobs=[job_row(seq)], journal=b"x")
    assert log_of(home.path).stat().st_size == length


def test_the_room_grows_with_the_log_and_ends_where_the_log_is_written_over(home: SqliteHome) -> None:
    writer = Writer(home.at(home.path))
    lengths = []
    for seq in range(1, 60):
        writer.commit(jobs=[job_row(seq, spec=b"x" * 500_000)], journal=b"x")
        lengths.append(log_of(home.path).stat().st_size)
    assert lengths == sorted(lengths)
    assert lengths[-1] < (CHECKPOINT_PAGES + 1_000) * 4_120
    assert seqs(home.stores[0]) == list(range(1, 60))


def test_what_a_crash_leaves_behind_the_last_commit_counts_for_nothing(home: SqliteHome) -> None:
    writer = Writer(home.at(home.path))
    for seq in (1, 2):
        writer.commit(jobs=[job_row(seq)], journal=b"x")
    copy = home.path.with_name("crashed.db")
    shutil.copy(home.path, copy)
    shutil.copy(log_of(home.path), log_of(copy))
    crashed = Writer(home.at(copy))
    assert seqs(home.stores[1]) == [1, 2]
    assert crashed.mark.number == 2
    crashed.commit(jobs=[job_row(3)])
    assert crashed.store.check() == []


def test_a_log_of_nothing_but_room_is_an_empty_one(home: SqliteHome) -> None:
    Writer(home.at(home.path)).commit(jobs=[job_row(1)])
    home.close()
    log_of(home.path).write_bytes(bytes(1 << 18))
    again = Writer(home.at(home.path))
    again.commit(jobs=[job_row(2)])
    assert seqs(home.stores[1]) == [1, 2]
    assert again.store.check() == []


def test_room_is_made_anew_after_the_log_was_cut_off(home: SqliteHome) -> None:
    writer = Writer(home.at(home.path))
    for seq in range(1, 40):
        writer.commit(jobs=[job_row(seq, spec=b"x" * 100_000)])
    connection = home.stores[0]._connection
    assert connection is not None
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert log_of(home.path).stat().st_size == 0
    writer.store.shrink(0.0)
    writer.commit(jobs=[job_row(40)])
    assert log_of(home.path).stat().st_size == 1 << 18


def test_where_no_room_can_be_made_the_log_makes_its_own(home: SqliteHome) -> None:
    writer = Writer(home.at(home.path))
    store = home.stores[0]
    assert store._connection is not None
    store._room = LogRoom(store._connection, home.path.with_name("missing") / "headgate.db")
    before = log_of(home.path).stat().st_size
    writer.commit(jobs=[job_row(1)])
    writer.commit(jobs=[job_row(2)])
    assert before < log_of(home.path).stat().st_size < 1 << 18
    assert seqs(store) == [1, 2]
