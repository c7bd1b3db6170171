import fcntl
import hashlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headgate.core.retention import Retention
from headgate.ports import (
    CommitFailed,
    Deposed,
    JobQuery,
    StoreDamaged,
    StoreError,
    StoreOwned,
    StoreTooNew,
    StoreUnavailable,
)
from headgate.stores.sqlite import SqliteStore, connect, read, restore, schema, upkeep, verify, write
from headgate.testing.store_conformance import StoreConformance, Writer, end_row, job_row, lease_row
from headgate.testing.store_conformance.upkeep import compact
from tests.stores.sqlite_home import SqliteHome


@pytest.fixture
def home(directory: Path) -> Iterator[SqliteHome]:
    place = SqliteHome(directory)
    yield place
    place.close()


class TestSqliteStore(StoreConformance):
    pass


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def columns(connection: apsw.Connection, sql: str) -> list[object]:
    return [value for (value,) in connection.execute(sql)]


# -- the file ---------------------------------------------------------------------------------------------------


def test_commits_are_durable_tables_are_strict_and_the_file_is_marked_as_ours(home: SqliteHome) -> None:
    store = home.at(home.path)
    store.open()
    connection = store._connection
    assert connection is not None
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2
    assert connection.pragma("wal_autocheckpoint") == connect.CHECKPOINT_PAGES
    assert connection.pragma("application_id") == schema.APPLICATION_ID
    assert connection.pragma("auto_vacuum") == 2
    ours = "type = 'table' AND name NOT LIKE 'sqlite_%'"
    tables = connection.execute(f"SELECT name, strict FROM pragma_table_list WHERE {ours}").fetchall()
    assert len(tables) == 9
    assert all(strict for _, strict in tables)


def test_a_new_database_appears_whole_and_leaves_nothing_beside_it(home: SqliteHome) -> None:
    home.store().open()
    home.close()
    assert sorted(path.name for path in home.path.parent.iterdir()) == ["headgate.db", "headgate.db.lock"]


def test_a_leftover_of_an_unfinished_start_is_replaced(home: SqliteHome) -> None:
    home.path.with_name("headgate.db.partial").write_bytes(b"half a database")
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)])
    assert not home.path.with_name("headgate.db.partial").exists()


def test_a_relative_path_a_symlink_and_a_strange_name_lead_to_the_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    strange = "file:a?mode=memory&b=100%#.db"
    writer = Writer(SqliteStore(strange))
    writer.commit(jobs=[job_row(1)])
    assert (directory / strange).stat().st_size > 0
    (directory / "link.db").symlink_to(strange)
    with pytest.raises(StoreOwned):
        SqliteStore("link.db").open()
    writer.store.close()
    linked = Writer(SqliteStore("link.db"))
    assert [live.seq for live in linked.store.live_jobs()] == [1]
    linked.store.close()


# -- versions ---------------------------------------------------------------------------------------------------

RELEASED = (
    "b89278254696969e",
    "c1b017e590a16799",
    "bc79f7f321b592a9",
)


def old_database(path: Path, version: int) -> None:
    """A database as that version left it, with a job and its end in it."""
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", schema.APPLICATION_ID)
    schema.migrate(connection, to=version)
    connection.pragma("journal_mode", "wal")
    write.put_jobs(connection, [job_row(1, key="k")])
    write.put_ends(connection, [end_row(1)])
    connection.execute("UPDATE meta SET epoch = 3, number = 4, seq = 1")
    connection.close()


def test_a_released_step_of_the_schema_never_changes() -> None:
    assert tuple(hashlib.sha256(step.encode()).hexdigest()[:16] for step in schema.STEPS) == RELEASED


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
def test_a_database_of_every_version_opens_with_its_content(home: SqliteHome, version: int) -> None:
    old_database(home.path, version)
    writer = Writer(home.store())
    assert (writer.mark.epoch, writer.mark.number, writer.mark.seq) == (4, 4, 1)
    assert writer.store.find_keys([("default", "k")]) == {("default", "k"): job_row(1, key="k")}
    assert [ended.end for ended in writer.store.recent_ends(9)] == [end_row(1)]
    writer.commit(jobs=[job_row(2)])
    assert writer.store.check() == []


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
def test_a_database_of_every_version_is_verified_as_it_is(home: SqliteHome, version: int) -> None:
    old_database(home.path, version)
    assert verify(home.path) == []
    connection = apsw.Connection(str(home.path))
    connection.execute("UPDATE meta SET seq = 0")
    connection.close()
    assert verify(home.path) == ["job 1 is above the last number given out"]
    assert verify(home.path) == ["job 1 is above the last number given out"]


def test_where_the_store_stands_goes_with_the_journal_and_by_itself_without_one(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)], journal=b"x", seq=1, tokens=5, low_water=1)
    connection = apsw.Connection(str(home.path))
    assert connection.execute("SELECT number, seq FROM meta").fetchall() == [(0, 0)]
    schema.show_mark(connection)
    assert connection.execute("SELECT number, seq, tokens, low_water FROM mark").fetchall() == [(1, 1, 5, 1)]
    assert connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'view'").fetchall() == []
    writer.commit(events=[], indexed=1, seq=1, tokens=6, low_water=2)
    assert connection.execute("SELECT number, seq, tokens, indexed FROM meta").fetchall() == [(2, 1, 6, 1)]
    connection.close()
    again = writer.reopened(home)
    assert again.mark == (writer.mark.epoch + 1, 2, 1, 6, 1, 2)


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_a_migrated_database_has_the_tables_of_a_new_one(home: SqliteHome, version: int) -> None:
    old_database(home.path, version)
    home.store().open()
    new = home.at(home.path.with_name("new.db"))
    new.open()
    home.close()
    shape = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name"
    shapes = [columns(connect.connect_reader(path), shape) for path in (home.path, new.path)]
    assert shapes[0] == shapes[1]


def test_a_newer_database_is_refused_and_left_alone(home: SqliteHome) -> None:
    old_database(home.path, schema.VERSION)
    connection = apsw.Connection(str(home.path))
    connection.pragma("user_version", schema.VERSION + 1)
    connection.close()
    before = home.path.read_bytes()
    with pytest.raises(StoreTooNew, match=f"schema version {schema.VERSION + 1}, this Headgate knows up to"):
        home.store().open()
    assert home.path.read_bytes() == before


# -- ownership --------------------------------------------------------------------------------------------------


def test_a_second_owner_in_the_same_process_is_told_who_holds_the_file(home: SqliteHome) -> None:
    home.store().open()
    with pytest.raises(StoreOwned, match=r"owned by process \d+ on \S+ since \d{4}-"):
        home.store().open()


def test_a_refused_owner_does_not_disturb_the_first(home: SqliteHome) -> None:
    writer = Writer(home.store())
    with pytest.raises(StoreOwned):
        home.store().open()
    writer.commit(jobs=[job_row(1)])
    assert writer.store.check() == []


def test_a_lock_file_without_a_name_still_locks(home: SqliteHome) -> None:
    home.store().open()
    home.path.with_name("headgate.db.lock").write_bytes(b"")
    with pytest.raises(StoreOwned, match="another process"):
        home.store().open()


def test_the_file_is_free_again_after_a_close_and_after_a_failed_open(home: SqliteHome) -> None:
    home.path.write_bytes(b"not a database at all" * 100)
    broken = home.store()
    with pytest.raises(StoreDamaged):
        broken.open()
    home.path.unlink()
    store = home.store()
    store.open()
    store.close()
    home.store().open()


def test_a_deposed_owner_stays_out_until_it_opens_anew(home: SqliteHome) -> None:
    old = Writer(home.store())
    new = home.usurper()
    new.open()
    with pytest.raises(Deposed, match="the store is at epoch 2, this engine is of epoch 1"):
        old.commit(jobs=[job_row(1)])
    with pytest.raises(StoreError, match="open the store anew"):
        old.commit(jobs=[job_row(1)])
    assert old.store.find_jobs(JobQuery()) == []


def test_a_lock_file_that_vanishes_while_it_is_being_locked_locks_nothing(
    home: SqliteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = home.path.with_name("headgate.db.lock")
    flock, removals = fcntl.flock, iter([lock.unlink])

    def slow_flock(descriptor: int, operation: int) -> None:
        for remove in itertools.islice(removals, 1):
            remove()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow_flock)
    home.store().open()
    with pytest.raises(StoreOwned, match="owned by process"):
        home.store().open()


# -- misuse -----------------------------------------------------------------------------------------------------


def test_a_store_that_is_not_open_says_so(home: SqliteHome) -> None:
    store = home.at(home.path)
    with pytest.raises(StoreError, match="not open"):
        list(store.live_jobs())
    with pytest.raises(StoreError, match="not open"):
        store.find_jobs(JobQuery())
    with pytest.raises(StoreError, match="not open"):
        store.seal()


def test_a_thread_that_asks_while_the_store_closes_gets_its_answer_or_a_clear_error(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)])
    store = home.stores[0]
    readers = store._reading()
    with readers.borrow() as connection:
        store.close()
        assert columns(connection, "SELECT count(*) FROM job") == [1]
    with pytest.raises(StoreError, match="not open"), readers.borrow():
        pass


@pytest.mark.parametrize("value", [2**70, "lone \ud800", 1.5, object()], ids=["large", "surrogate", "float", "object"])
def test_a_value_that_cannot_be_kept_fails_its_whole_batch(home: SqliteHome, value: object) -> None:
    writer = Writer(home.store())
    field = "name" if isinstance(value, str) else "created_at"
    with pytest.raises(CommitFailed):
        writer.store.write(writer.batch(jobs=[*(job_row(seq) for seq in range(1, 30)), job_row(30, **{field: value})]))
    with pytest.raises(CommitFailed):
        writer.store.seal()
    assert writer.store.find_jobs(JobQuery()) == []


@pytest.mark.parametrize("count", [1, 19, 20, 21, 40, 59, 60])
def test_rows_of_any_number_are_written_and_dropped(home: SqliteHome, count: int) -> None:
    writer = Writer(home.store())
    everyone = range(1, count + 1)
    writer.commit(jobs=[job_row(seq) for seq in everyone], leases=[lease_row(seq) for seq in everyone])
    assert [live.lease for live in writer.store.live_jobs()] == [lease_row(seq) for seq in everyone]
    writer.commit(leases_gone=list(everyone), jobs=[job_row(seq, name="again") for seq in everyone])
    assert [live.lease for live in writer.store.live_jobs()] == [None] * count
    assert {view.job.name for view in writer.store.find_jobs(JobQuery(limit=count))} == {"again"}


def test_shrinking_waits_for_the_open_batch(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.store.write(writer.batch(jobs=[job_row(1)]))
    with pytest.raises(StoreError, match="seal it first"):
        writer.store.shrink(0.0)
    writer.store.seal()
    assert len(writer.store.find_jobs(JobQuery())) == 1


# -- upkeep -----------------------------------------------------------------------------------------------------


def test_shrinking_gives_the_room_back_and_empties_the_log(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(seq, spec=b"x" * 5_000) for seq in range(1, 501)])
    writer.commit(ends=[end_row(seq, ended_at=1) for seq in range(1, 501)])
    home.stores[0].close()
    full = home.path.stat().st_size
    writer = Writer(home.store())
    assert compact(writer, 10, Retention(jobs=1)).jobs == 500
    while writer.store.shrink(spare=0.0):
        pass
    assert home.path.stat().st_size < full / 10
    assert log_of(home.path).stat().st_size == 0


def test_compact_does_not_wait_for_a_reader(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)], ends=[end_row(1, ended_at=1)])
    with home.stores[0]._reading().borrow() as connection, connection:
        assert columns(connection, "SELECT count(*) FROM job") == [1]
        assert compact(writer, 10, Retention(jobs=0)).jobs == 1
        assert not writer.store.shrink(spare=0.0)
    assert writer.store.find_jobs(JobQuery()) == []


def test_a_small_share_of_free_room_is_kept_for_new_rows(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(seq, spec=b"x" * 5_000) for seq in range(1, 501)])
    writer.commit(ends=[end_row(seq, ended_at=1) for seq in range(1, 101)])
    assert compact(writer, 10, Retention(jobs=1)).jobs == 100
    reading = apsw.Connection(str(home.path), flags=apsw.SQLITE_OPEN_READONLY)
    free = int(reading.pragma("freelist_count"))
    assert free > 100
    assert not writer.store.shrink(spare=0.5)
    assert int(reading.pragma("freelist_count")) == free
    while writer.store.shrink(spare=0.05):
        pass
    assert 0 < int(reading.pragma("freelist_count")) < free / 2
    reading.close()


def test_the_log_is_emptied_by_the_owner_alone(home: SqliteHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CHECKPOINT_PAGES", 50)
    writer = Writer(home.store())
    for seq in range(1, 101):
        writer.commit(jobs=[job_row(seq, spec=b"x" * 20_000)])
    assert home.path.stat().st_size > 1_000_000
    assert log_of(home.path).stat().st_size < 500_000
    with home.stores[0]._reading().borrow() as connection, pytest.raises(apsw.ReadOnlyError):
        connection.execute("DELETE FROM job")
    before = home.path.stat().st_mtime_ns, log_of(home.path).stat().st_size
    with home.stores[0]._reading().borrow() as connection:
        assert columns(connection, "SELECT count(*) FROM job") == [100]
    assert (home.path.stat().st_mtime_ns, log_of(home.path).stat().st_size) == before


def test_a_copy_made_while_commits_go_on_is_one_moment(home: SqliteHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_COPY_PAGES", 10)
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(seq, spec=b"x" * 2_000) for seq in range(1, 2_001)], journal=b"x")
    target = home.backup_target()
    thread = threading.Thread(target=writer.store.backup, args=(target,))
    thread.start()
    for seq in range(2_001, 3_001):
        writer.commit(jobs=[job_row(seq)], leases=[lease_row(seq)], journal=b"x")
    thread.join()
    assert verify(target) == []
    copy = Writer(home.from_backup(target))
    assert copy.mark.number < writer.mark.number, "the copy waited for the commits to stop"
    assert len(list(copy.store.live_jobs())) == copy.mark.seq
    assert [row.number for row in copy.store.journal()] == list(range(1, copy.mark.number + 1))


def test_a_copy_is_one_file_and_checking_it_leaves_nothing_beside_it(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)])
    (home.path.parent / "elsewhere").mkdir()
    target = home.path.parent / "elsewhere" / "copy.db"
    writer.store.backup(str(target))
    assert verify(target) == []
    assert list(target.parent.iterdir()) == [target]


def test_a_copy_into_nowhere_is_refused_in_one_line(home: SqliteHome) -> None:
    store = home.store()
    store.open()
    with pytest.raises(StoreUnavailable, match=r"the directory .* does not exist"):
        store.backup(str(home.path.parent / "no" / "copy.db"))


def test_a_restored_store_is_far_ahead_of_every_token_given_out(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1)], leases=[lease_row(1)], tokens=5)
    target = home.backup_target()
    writer.store.backup(target)
    for _ in range(5):
        writer = writer.reopened(home)
    restored = home.path.with_name("restored.db")
    restore(target, restored)
    again = Writer(home.at(restored))
    assert again.mark.epoch > writer.mark.epoch + 900
    assert (again.mark.seq, again.mark.tokens) == (1, 5)
    assert again.store.check() == []
    assert verify(target) == []


def test_restoring_overwrites_nothing_and_needs_a_sound_copy(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(seq, spec=b"x" * 3_000) for seq in range(1, 200)])
    target = home.backup_target()
    writer.store.backup(target)
    with pytest.raises(StoreOwned):
        restore(target, home.path)
    writer.store.close()
    with pytest.raises(StoreError, match="exists already"):
        restore(target, home.path)
    with pytest.raises(StoreUnavailable, match="no such file"):
        restore(home.path.with_name("none.db"), home.path.with_name("new.db"))
    content = bytearray(Path(target).read_bytes())
    content[4096 * 20 : 4096 * 30] = bytes(4096 * 10)
    Path(target).write_bytes(content)
    with pytest.raises(StoreDamaged, match="damaged"):
        restore(target, home.path.with_name("new.db"))
    assert not home.path.with_name("new.db").exists()


def test_check_finds_rows_out_of_bounds(home: SqliteHome) -> None:
    writer = Writer(home.store())
    writer.commit(jobs=[job_row(1), job_row(2)], seq=1, low_water=2)
    writer.commit(journal=b"x", seq=1, low_water=2)
    assert writer.store.check() == [
        "job 1 is live and below the low-water mark",
        "job 2 is above the last number given out",
    ]


def test_recovery_does_not_look_below_the_low_water_mark(home: SqliteHome) -> None:
    home.store().open()
    connection = home.stores[0]._connection
    assert connection is not None
    for sql in (read._LIVE, read._STATUSES, read._LEASES):
        plan = [str(row[3]) for row in connection.execute("EXPLAIN QUERY PLAN " + sql)]
        assert plan[0].endswith("USING INTEGER PRIMARY KEY (rowid>?)")


def test_retention_finds_old_jobs_keys_and_recent_ends_by_index(home: SqliteHome) -> None:
    home.store().open()
    connection = home.stores[0]._connection
    assert connection is not None
    for sql, values in (
        (read._OLD_ENDS, (9, 1, 1, 1)),
        ("SELECT seq FROM history ORDER BY ended_at DESC, seq DESC LIMIT 5", ()),
    ):
        plan = " ".join(str(row[3]) for row in connection.execute("EXPLAIN QUERY PLAN " + sql, values))
        assert "INDEX" in plan
        assert "TEMP B-TREE" not in plan
    plan = " ".join(str(row[3]) for row in connection.execute("EXPLAIN QUERY PLAN " + read._KEYS, ("[]",)))
    assert "USING INDEX job_by_key (tenant=? AND key=?)" in plan
