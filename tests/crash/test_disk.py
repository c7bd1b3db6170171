"""Disks that are full or broken, and files that are damaged, as the callers of an engine meet them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.bootstrap.engine import open_engine, start_engine
from headgate.core.errors import HeadgateError
from headgate.engine.errors import EngineStopped
from headgate.engine.questions import CountJobs, GetJob
from headgate.ports import CommitFailed, StoreDamaged, StoreOwned
from headgate.stores.sqlite import SqliteStore
from tests.crash.at_rest import Told, check_at_rest
from tests.crash.child import SETTINGS, submission
from tests.crash.conftest import Run
from tests.stores.sqlite_home import FaultyVFS

WITHIN = 60.0
_names = itertools.count()


@pytest.fixture
def disk() -> Iterator[FaultyVFS]:
    vfs = FaultyVFS(f"crash-{next(_names)}")
    yield vfs
    vfs.heal()
    vfs.unregister()


def test_on_a_full_disk_commands_are_refused_reads_work_and_the_engine_comes_back_by_itself(
    run: Run, path: Path
) -> None:
    lines = run("full_disk", path).rest()
    told = Told()
    told.take(lines)
    said = [line.split(maxsplit=2) for line in lines]
    assert said[0][:2] == ["refused", "CommitFailed"]
    assert [words[1] for words in said if words[0] == "read"] == ["queued", "queued"]
    problems = [line for line in lines if line.startswith("problem ")]
    assert len(problems) == 2
    assert "problem None" not in problems
    assert "recovered True None" in lines
    count = int(said[-1][1])
    assert count > 5
    jobs = check_at_rest(path, told)
    assert {f"job-{number}" for number in range(count)} <= {view.job.id for view in jobs}


def test_after_a_failed_sync_nothing_is_acknowledged_until_the_log_was_written_anew(
    path: Path, disk: FaultyVFS
) -> None:
    engine = start_engine(SqliteStore(path, vfs=disk.name), SETTINGS)
    told = Told({"kept": engine.do(submission("kept")).ids[0]})
    disk.fail("fsync", "sync")
    disk.done.clear()
    with pytest.raises(CommitFailed):
        engine.do(submission("lost"))
    with engine._turn:
        engine.rounds.pass_time(engine.clock.now())
        assert engine.problem is not None
        for _ in range(3):
            with pytest.raises(HeadgateError):
                engine.do(submission("refused"))
        assert engine.ask(GetJob(told.submitted["kept"])).state == "queued"
    disk.done.clear()
    disk.heal()
    assert engine.recovered(WITHIN)
    synced = [Path(name).name for operation, name in disk.done if operation == "sync"]
    assert "headgate.db" in synced, "the file itself was synced before anything new rests on the log"
    told.submitted["next"] = engine.do(submission("next")).ids[0]
    engine.stop()
    keys = {view.job.key for view in check_at_rest(path, told)}
    assert {"kept", "next"} <= keys <= {"kept", "lost", "next"}


def test_an_engine_whose_disk_failed_stays_the_owner(path: Path, disk: FaultyVFS) -> None:
    engine = start_engine(SqliteStore(path, vfs=disk.name), SETTINGS)
    disk.fail("full", "write")
    with pytest.raises(CommitFailed):
        engine.do(submission("lost"))
    with engine._turn:
        engine.rounds.pass_time(engine.clock.now())
    with pytest.raises(StoreOwned):
        start_engine(SqliteStore(path), SETTINGS)
    disk.heal()
    assert engine.recovered(WITHIN)
    engine.do(submission("next"))
    engine.stop()


def test_an_engine_that_was_stopped_answers_no_questions(path: Path) -> None:
    engine = start_engine(SqliteStore(path), SETTINGS)
    engine.stop()
    with pytest.raises(EngineStopped):
        engine.ask(CountJobs())


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_damaged_database_is_refused_and_never_replaced(path: Path, exclusive: bool) -> None:
    engine = start_engine(SqliteStore(path), SETTINGS)
    for number in range(40):
        engine.do(submission(f"key {number}"))
    engine.stop()
    content = path.read_bytes()
    broken = content[:4096] + bytes(8192) + content[12288:]
    path.write_bytes(broken)
    with pytest.raises(StoreDamaged, match="the database is damaged"):
        open_engine(str(path), SETTINGS, exclusive=exclusive)
    assert path.read_bytes() == broken


def test_a_second_exclusive_engine_is_told_who_holds_the_file(run: Run, path: Path) -> None:
    owner = run("owner", path)
    assert owner.line() == f"open {owner.pid}"
    with pytest.raises(StoreOwned, match=f"is owned by process {owner.pid} on .* since "):
        open_engine(str(path), SETTINGS, exclusive=True)
    owner.kill()
    open_engine(str(path), SETTINGS, exclusive=True).stop()


def test_an_engine_that_was_deposed_steps_down_for_good(path: Path) -> None:
    """Somebody removed the lock file: only the epoch stands between two owners, and the younger one stays."""
    older = start_engine(SqliteStore(path), SETTINGS)
    told = Told({"kept": older.do(submission("kept")).ids[0]})
    stepped_down: list[bool] = []
    older.on_deposed = lambda: stepped_down.append(True)
    path.with_name(path.name + ".lock").unlink()
    younger = start_engine(SqliteStore(path), SETTINGS)
    with pytest.raises(CommitFailed, match="epoch"):
        older.do(submission("late"))
    assert older._timer is not None
    older._timer.join(WITHIN)
    assert stepped_down == [True]
    assert older.problem is not None
    with pytest.raises(EngineStopped):
        older.do(submission("later"))
    told.submitted["next"] = younger.do(submission("next")).ids[0]
    older.stop()
    younger.stop()
    assert [view.job.key for view in check_at_rest(path, told)] == ["kept", "next"]
