"""A database that was damaged: one clear, typed line wherever it is met, or no harm done. Never a traceback."""

from __future__ import annotations

import random
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.bootstrap.engine import start_engine
from headgate.bootstrap.upkeep import verify_database
from headgate.core import commands as c
from headgate.core.errors import HeadgateError, JobNotFound
from headgate.core.settings import Settings
from headgate.engine.errors import EngineStopped
from headgate.engine.questions import CountJobs, FindJobs, GetHistory, GetJob, GetRecords, Question
from headgate.ports import JobQuery, StoreDamaged, StoreError, StoreUnavailable
from headgate.stores import sqlite
from headgate.stores.sqlite import SqliteStore
from headgate.testing import job, worker
from tests.cli.running import headgate
from tests.stores.conftest import directory

__all__ = ["directory"]
SETTINGS = Settings(fixed_busy=0)
QUESTIONS: tuple[Question[Any], ...] = (
    GetJob("job-03"),
    FindJobs(JobQuery()),
    GetHistory("job-03"),
    CountJobs(),
    GetRecords("audit"),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database with something of everything in it."""
    path = tmp_path_factory.mktemp("sound") / "headgate.db"
    engine = start_engine(SqliteStore(path), SETTINGS)
    engine.do(c.RegisterWorker(worker("w", slots=5)))
    jobs = [
        c.NewJob(f"job-{number:02}", job("job", idempotency_key=f"key {number}", payload={"text": "x" * 60}))
        for number in range(40)
    ]
    engine.do(c.Submit(tuple(jobs)))
    for lease in engine.read(lambda state: list(state.leases.values()))[:3]:
        engine.do(c.Start(lease.id, lease.token))
        engine.do(c.Complete(lease.id, lease.token, b'{"answer": 42}'))
    engine.record("audit", "me", b"entry")
    engine.stop()
    return path.read_bytes()


def used(path: Path) -> list[HeadgateError]:
    """Open a database and use it in every way; the typed errors that were met on the way."""
    met: list[HeadgateError] = []
    try:
        engine = start_engine(SqliteStore(path), SETTINGS)
    except HeadgateError as error:
        return [error]
    try:
        for question in QUESTIONS:
            try:
                engine.ask(question)
            except JobNotFound:  # rightly: it was deleted
                continue
            except HeadgateError as error:
                met.append(error)
        engine.do(c.Submit((c.NewJob("new", job("new")),)))
    except HeadgateError as error:
        met.append(error)
    finally:
        engine.stop()
    return met


def one_line(error: HeadgateError) -> bool:
    return isinstance(error, StoreError | EngineStopped) and "\n" not in str(error)


def verified(path: Path) -> bool:
    """Whether a database is well; a refusal to look at it is as good as a problem."""
    try:
        problems = verify_database(str(path)).problems
    except StoreError:
        return False
    assert not any("\n" in problem for problem in problems)
    return not problems


def flipped(sound: bytes, chance: random.Random) -> bytes:
    content = bytearray(sound)
    for _ in range(chance.choice((1, 1, 2, 8))):
        content[chance.randrange(len(content))] ^= chance.choice((1, 4, 128, 255))
    return bytes(content)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_bytes_are_flipped_the_file_is_well_or_refused_in_one_line(
    directory: Path, sound: bytes, seed: int
) -> None:
    path, chance = directory / "headgate.db", random.Random(seed)
    kinds = set()
    for _ in range(30):
        path.write_bytes(flipped(sound, chance))
        well, met = verified(path), used(path)
        assert all(map(one_line, met)), met
        assert not (well and met), met
        kinds |= {well, *map(type, met)}
        for left in directory.iterdir():
            left.unlink()
    assert kinds >= {True, False, StoreDamaged}


def damages() -> Iterator[str]:
    """Every table dropped, emptied and with a column renamed; every column with something that cannot be."""
    values = {
        "BLOB": ("x'c1ff00'", "x''"),
        "INTEGER": ("-1", "9223372036854775807"),
        "TEXT": ("'?'", "CAST(x'ff80' AS TEXT)"),
    }
    connection = apsw.Connection(":memory:")
    sqlite.schema.migrate(connection)
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        yield from (f"DROP TABLE {table}", f"DELETE FROM {table}", f"ALTER TABLE {table} RENAME TO other")
        for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            yield f"ALTER TABLE {table} RENAME COLUMN {column} TO other"
            yield from (f"UPDATE OR REPLACE {table} SET {column} = {value}" for value in values[str(kind)])
    yield from (f"PRAGMA user_version = {version}" for version in (0, -3, 1))


def test_whatever_is_wrong_with_a_table_or_a_row_it_is_a_typed_error_in_one_line(directory: Path, sound: bytes) -> None:
    path, refused, harmless = directory / "headgate.db", 0, 0
    for damage in damages():
        path.write_bytes(sound)
        connection = apsw.Connection(str(path))
        try:
            connection.execute(damage)
        except apsw.Error:  # the schema does not let it happen
            continue
        finally:
            connection.close()
        met = used(path)
        assert all(map(one_line, met)), (damage, met)
        refused += bool(met)
        harmless += not met
        for left in directory.iterdir():
            left.unlink()
    assert (refused > 60, harmless > 10) == (True, True)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("DELETE FROM meta", "the row that says where the store stands is missing"),
        ("DROP TABLE history", "column seq of table history is missing"),
        ("UPDATE job SET spec = x'c1'", "a row cannot be read"),
        ("UPDATE journal SET events = x'c1' WHERE number = 2", "commit 2 cannot be replayed"),
        ("UPDATE meta SET seq = 1 << 50", "cannot stand at seq"),
        ("UPDATE meta SET tokens = -1", "cannot stand at tokens -1"),
    ],
)
def test_verify_names_the_damage_and_the_file(directory: Path, sound: bytes, damage: str, problem: str) -> None:
    path = directory / "headgate.db"
    path.write_bytes(sound)
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    done = headgate("db", "verify", str(path))
    assert (done.returncode, done.stderr) == (1, "")
    assert problem in done.stdout
    assert "copy.db" not in done.stdout


def test_a_damaged_database_ends_every_command_with_one_line_and_its_code(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "headgate.db"
    damaged = sound[:8_192] + bytes(8_192) + sound[16_384:]
    path.write_bytes(damaged)
    for command in (("db", "migrate"), ("db", "compact", "--jobs", "1d"), ("up", "--port", "0", "--db")):
        done = headgate(*command, str(path), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (65, ""), command
        assert (done.stderr.count("\n"), "the database is damaged" in done.stderr) == (1, True), done.stderr
    assert path.read_bytes() == damaged


def test_odd_names_are_refused_in_one_line(tmp_path: Path, sound: bytes) -> None:
    path, folder = tmp_path / "headgate.db", tmp_path / "folder"
    path.write_bytes(sound)
    folder.mkdir()
    (tmp_path / "text").write_text("not a database, and longer than the smallest page" * 20, encoding="utf-8")
    for command, said in (
        (("backup", str(path), ""), "the name of the new file is empty"),
        (("backup", str(path), str(folder)), "this is a directory, not a file to copy to"),
        (("backup", str(path), "/"), "this is a directory, not a file to copy to"),
        (("backup", str(folder), "new.db"), "this is a directory, not a database file"),
        (("restore", "", "new.db"), "the name of the copy is empty"),
        (("restore", str(folder), "new.db"), "this is a directory, not a database file"),
        (("restore", "text", "new.db"), "not a SQLite database"),
        (("restore", str(path), str(folder)), "directory"),
        (("restore", str(path), ""), "the address of the database is empty"),
        (("verify", ""), "the address of the database is empty"),
        (("verify", str(folder)), "this is a directory, not a database file"),
        (("verify", "text"), "not a SQLite database"),
        (("verify", "memory://"), "memory:// does not outlive its process"),
        (("migrate", str(folder)), "this is a directory, not a database file"),
        (("compact", "memory://", "--jobs", "1d"), "memory:// does not outlive its process"),
        (("compact", str(folder), "--jobs", "1d"), "this is a directory, not a database file"),
        (("verify", "x" * 5_000), "too long"),
    ):
        done = headgate("db", *command, cwd=tmp_path)
        assert done.returncode not in (0, 1, 2), (command, done)
        assert (done.stdout, done.stderr.count("\n")) == ("", 1), (command, done.stderr)
        assert said in done.stderr, (command, done.stderr)
    assert {found.name.partition("-")[0].partition(".lock")[0] for found in tmp_path.iterdir()} == {
        "folder",
        "headgate.db",
        "text",
    }
    assert not (tmp_path / "new.db").exists()


def test_a_database_its_log_and_its_copies_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    engine = start_engine(SqliteStore(path), SETTINGS)
    engine.do(c.Submit((c.NewJob("one", job("one")),)))
    engine.writer.store.backup(str(tmp_path / "copy.db"))
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}
    engine.stop()
    sqlite.restore(tmp_path / "copy.db", tmp_path / "again.db")
    modes["again.db"] = stat.S_IMODE((tmp_path / "again.db").stat().st_mode)
    assert {name: oct(mode) for name, mode in modes.items() if not name.endswith(".lock")} == dict.fromkeys(
        ("headgate.db", "headgate.db-wal", "headgate.db-shm", "copy.db", "again.db"), "0o600"
    )


def test_a_file_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "headgate.db.partial").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot use the database"):
        SqliteStore(tmp_path / "headgate.db").open()
