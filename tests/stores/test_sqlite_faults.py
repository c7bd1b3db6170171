"""Broken disks, damaged files and places that cannot be written to."""

import itertools
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from headgate.ports import (
    CommitFailed,
    Gone,
    JobQuery,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from headgate.stores.sqlite import SqliteStore, connect, verify
from headgate.testing.store_conformance import Writer, end_row, job_row
from tests.stores.sqlite_home import FAULTS, Fault, FaultyVFS, SqliteHome

_names = itertools.count()


@pytest.fixture
def home(directory: Path) -> SqliteHome:
    return SqliteHome(directory)


@pytest.fixture
def disk() -> Iterator[FaultyVFS]:
    vfs = FaultyVFS(f"faulty-{next(_names)}")
    yield vfs
    vfs.heal()
    vfs.unregister()


@pytest.fixture
def store(home: SqliteHome, disk: FaultyVFS) -> Iterator[SqliteStore]:
    opened = SqliteStore(home.path, vfs=disk.name)
    yield opened
    disk.heal()
    opened.close()


def seqs(store: SqliteStore) -> list[int]:
    return [view.job.seq for view in store.find_jobs(JobQuery(order="oldest", limit=1_000))]


# -- errors of the disk -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["write", "full", "fsync"])
def test_a_commit_that_the_disk_refuses_fails_with_its_cause_and_reading_goes_on(
    store: SqliteStore, disk: FaultyVFS, fault: Fault
) -> None:
    writer = Writer(store)
    writer.commit(jobs=[job_row(1)])
    disk.fail(fault, "sync" if fault == "fsync" else "write", ending="-wal")
    with pytest.raises(CommitFailed, match="the commit failed") as failure:
        writer.commit(jobs=[job_row(2)])
    assert isinstance(failure.value.__cause__, apsw.Error)
    assert seqs(store) == [1]
    assert store.check() == []
    disk.heal()
    with pytest.raises(CommitFailed, match="open the store anew"):
        writer.commit(jobs=[job_row(3)])
    again = Writer(store)
    again.commit(jobs=[job_row(4)])
    assert seqs(store) == [1, 4]
    assert store.check() == []


def test_a_failed_sync_is_never_tried_again(store: SqliteStore, disk: FaultyVFS) -> None:
    writer = Writer(store)
    disk.fail("fsync", "sync")
    disk.done.clear()
    for seq in (1, 2, 3):
        with pytest.raises(CommitFailed):
            writer.commit(jobs=[job_row(seq)])
    assert [name.endswith("-wal") for operation, name in disk.done if operation == "sync"] == [True]


def test_a_disk_that_still_fails_refuses_to_open(store: SqliteStore, disk: FaultyVFS) -> None:
    writer = Writer(store)
    writer.commit(jobs=[job_row(1)])
    disk.fail("fsync", "sync")
    with pytest.raises(CommitFailed):
        writer.commit(jobs=[job_row(2)])
    with pytest.raises(StoreUnavailable):
        store.open()
    disk.heal()
    store.open()
    assert 1 in seqs(store)


def test_what_a_failed_sync_left_in_the_log_is_written_anew_before_anything_rests_on_it(
    home: SqliteHome, store: SqliteStore, disk: FaultyVFS
) -> None:
    writer = Writer(store)
    writer.commit(jobs=[job_row(1)])
    disk.fail("fsync", "sync", ending="-wal")
    with pytest.raises(CommitFailed):
        writer.commit(jobs=[job_row(2)])
    home.crash(store)
    disk.heal()
    disk.done.clear()
    store.open()
    synced = [name for operation, name in disk.done if operation == "sync"]
    assert str(home.path) in synced
    assert seqs(store) in ([1], [1, 2])


def workload(store: SqliteStore, acknowledged: list[int]) -> None:
    """Commits of every size, with checkpoints, a retention run and a restart in between."""
    for part in range(3):
        writer = Writer(store)
        for seq in range(10 * part + 1, 10 * part + 7):
            writer.commit(jobs=[job_row(seq, spec=b"x" * 9_000)], journal=b"x" * 500)
            acknowledged.append(seq)
        writer.commit(ends=[end_row(10 * part + 1, ended_at=5)])
        writer.commit(indexed=writer.mark.number, gone=Gone(journal=[row.number for row in store.journal()]))
        store.shrink(0.0)
        store.close()


@pytest.mark.parametrize("once", [True, False], ids=["once", "for good"])
def test_whichever_operation_of_the_disk_fails_nothing_acknowledged_is_lost(
    directory: Path, disk: FaultyVFS, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    monkeypatch.setattr(connect, "CHECKPOINT_PAGES", 8)
    workload(SqliteStore(directory / "whole.db", vfs=disk.name), [])
    total = len(disk.done)
    assert total > 100
    failed = 0
    for failing, fault in zip(range(once, total, 7), itertools.cycle(FAULTS)):
        disk.fail(fault, spare=failing, once=once)
        acknowledged = acknowledged_until_failure(SqliteStore(directory / f"{failing}.db", vfs=disk.name))
        disk.heal()
        failed += len(acknowledged) < 18
        store = SqliteStore(directory / f"{failing}.db", vfs=disk.name)
        store.open()
        assert set(acknowledged) <= set(seqs(store)), failing
        assert store.check() == [], failing
        store.close()
    assert failed > 20


def acknowledged_until_failure(store: SqliteStore) -> list[int]:
    """Run the workload as far as it goes; what was acknowledged."""
    acknowledged: list[int] = []
    with suppress(StoreError):
        workload(store, acknowledged)
    store.close()
    return acknowledged


# -- a full disk ------------------------------------------------------------------------------------------------

FULL_DISK = """
import resource, sys
from headgate.ports import CommitFailed, JobQuery
from headgate.stores.sqlite import SqliteStore
from headgate.testing.store_conformance import Writer, job_row

store = SqliteStore(sys.argv[1])
writer = Writer(store)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
sealed = 0
try:
    while sealed < 1_000:
        writer.commit(jobs=[job_row(sealed + 1, spec=b"x" * 20_000)])
        sealed += 1
except CommitFailed as error:
    assert error.__cause__ is not None
assert 5 < sealed < 1_000, sealed
assert len(store.find_jobs(JobQuery(limit=2_000))) == sealed
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
again = Writer(store)
assert again.mark.seq == sealed
again.commit(jobs=[job_row(sealed + 1)])
assert len(list(store.live_jobs())) == sealed + 1
assert store.check() == []
store.close()
print("sealed", sealed)
"""


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_full_disk_fails_the_commit_and_there_is_work_again_when_there_is_room(home: SqliteHome) -> None:
    result = run_python(FULL_DISK, str(home.path))
    assert result.stdout.startswith("sealed"), result.stderr
    assert verify(home.path) == []


# -- damaged and foreign files ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a closed, sound database."""
    path = tmp_path_factory.mktemp("sound") / "headgate.db"
    writer = Writer(SqliteStore(path))
    writer.commit(jobs=[job_row(seq, key=f"k{seq}", spec=b"x" * 300) for seq in range(1, 400)])
    writer.commit(ends=[end_row(seq) for seq in range(1, 200)], journal=b"y" * 9_000)
    writer.store.close()
    return path.read_bytes()


@pytest.mark.parametrize("length", [1, 99, 100, 4_095, 4_096, 40_960, -4_096, -1])
def test_a_truncated_file_is_refused_and_left_as_it_is(home: SqliteHome, sound: bytes, length: int) -> None:
    content = sound[:length]
    home.path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        home.store().open()
    assert home.path.read_bytes() == content


@pytest.mark.parametrize("page", [0, 1, 2, 5, 20])
def test_a_page_of_zeros_or_noise_is_refused(home: SqliteHome, sound: bytes, page: int) -> None:
    for filler in (bytes(4_096), random.Random(page).randbytes(4_096)):
        content = sound[: page * 4_096] + filler + sound[(page + 1) * 4_096 :]
        home.path.write_bytes(content)
        with pytest.raises(StoreDamaged):
            home.store().open()
        assert home.path.read_bytes() == content


def test_a_flipped_bit_is_found_or_survived_but_never_a_crash(home: SqliteHome, sound: bytes) -> None:
    chance = random.Random(7)
    refused = 0
    for _ in range(150):
        content = bytearray(sound)
        content[chance.randrange(min(len(content), 60_000))] ^= 1 << chance.randrange(8)
        home.path.write_bytes(content)
        refused += not survives(SqliteStore(home.path))
    assert 5 < refused < 150


def survives(store: SqliteStore) -> bool:
    """Use a store in every way; whether it took part to the end."""
    try:
        writer = Writer(store)
        assert len(list(store.live_jobs())) + len(store.recent_ends(1_000)) <= 399
        store.find_jobs(JobQuery(limit=1_000))
        store.counts()
        list(store.journal())
        writer.commit(jobs=[job_row(1_000)])
        return store.check() == []
    except StoreError:
        return False
    finally:
        store.close()


def test_a_damaged_log_loses_nothing_that_was_moved_into_the_file(home: SqliteHome, directory: Path) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)])
    writer.store.close()
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(2)])
    home.crash(writer.store)
    log = directory / "headgate.db-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 255
    log.write_bytes(content)
    again = Writer(home.store())
    assert seqs(home.stores[-1])[:1] == [1]
    assert again.store.check() == []
    again.store.close()


def test_the_log_of_a_damaged_database_is_left_for_whoever_repairs_it(home: SqliteHome, sound: bytes) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)])
    home.crash(writer.store)
    content = bytearray(home.path.read_bytes())
    content[2 * 4_096 :] = random.Random(1).randbytes(len(content) - 2 * 4_096)
    home.path.write_bytes(content)
    log = home.path.with_name("headgate.db-wal")
    before = log.read_bytes()
    assert len(before) > 4_096
    with pytest.raises(StoreDamaged):
        home.store().open()
    assert home.path.read_bytes() == content
    assert log.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"hello", b"a text of some length, " * 1_000], ids=["empty", "short", "text"])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(home: SqliteHome, content: bytes) -> None:
    home.path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"empty|not a SQLite database"):
        home.store().open()
    assert home.path.read_bytes() == content
    assert [path.name for path in home.path.parent.iterdir()] == [home.path.name]


def test_a_lock_that_was_there_before_stays_when_the_database_is_refused(home: SqliteHome) -> None:
    Writer(home.store()).store.close()
    home.path.write_bytes(b"hello")
    with pytest.raises(StoreDamaged):
        home.store().open()
    assert home.path.with_name("headgate.db.lock").exists()


def test_a_database_of_another_program_is_refused_and_left_as_it_is(home: SqliteHome) -> None:
    connection = apsw.Connection(str(home.path))
    connection.execute("CREATE TABLE job (seq)")
    connection.close()
    before = home.path.read_bytes()
    with pytest.raises(StoreUnavailable, match="not a Headgate database"):
        home.store().open()
    with pytest.raises(StoreUnavailable, match="not a Headgate database"):
        verify(home.path)
    assert home.path.read_bytes() == before


def test_a_log_without_its_database_is_not_poured_into_a_new_one(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)])
    home.crash(writer.store)
    home.path.unlink()
    with pytest.raises(StoreDamaged, match=r"its log headgate\.db-wal is still there"):
        home.store().open()
    assert not home.path.exists()


# -- places that cannot be written to ---------------------------------------------------------------------------


def test_a_directory_a_missing_directory_and_a_device_are_refused_in_one_line(directory: Path) -> None:
    for path, message in (
        (directory, "this is a directory"),
        (directory / "no" / "headgate.db", "the directory .*no does not exist"),
        (Path("/dev/null"), "not a regular file"),
    ):
        with pytest.raises(StoreUnavailable, match=message) as refusal:
            SqliteStore(path).open()
        assert "\n" not in str(refusal.value)


WITHOUT_RIGHTS = """
import os, sys
from headgate.ports import StoreError
from headgate.stores.sqlite import SqliteStore
import headgate.testing.store_conformance
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    SqliteStore(sys.argv[1]).open()
except StoreError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that any user may enter: the tests may run as root, whom nothing is forbidden."""
    directory = Path(tempfile.mkdtemp(prefix="headgate-"))
    directory.chmod(0o777)
    yield directory
    directory.chmod(0o777)
    shutil.rmtree(directory)


def refusal_without_rights(path: Path) -> str:
    result = run_python(WITHOUT_RIGHTS, str(path))
    assert result.stderr == ""
    return result.stdout.strip()


def test_no_permission_is_one_clear_line(public: Path) -> None:
    path = public / "headgate.db"
    store = SqliteStore(path)
    store.open()
    store.close()
    lock = public / "headgate.db.lock"
    lock.chmod(0o666)
    path.chmod(0o444)
    assert refusal_without_rights(path) == f"StoreUnavailable {path}: the file is read-only"
    path.chmod(0o000)
    assert refusal_without_rights(path) == f"StoreUnavailable {path}: no permission to read the file"
    path.chmod(0o666)
    lock.chmod(0o444)
    assert "cannot lock it: Permission denied" in refusal_without_rights(path)
    lock.unlink()
    public.chmod(0o555)
    assert "cannot lock it: Permission denied" in refusal_without_rights(public / "new.db")
    assert [found.name for found in public.iterdir()] == ["headgate.db"]
