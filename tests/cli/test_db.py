"""`headgate db` as a user meets it: as a process with an exit code, one clear line, and never a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.bootstrap.engine import open_engine, start_engine
from headgate.cli.exits import MEANINGS, UNAVAILABLE
from headgate.core import commands as c
from headgate.core.errors import OutcomeConflict, StaleLease
from headgate.core.settings import Settings
from headgate.engine.questions import CountJobs, GetJob
from headgate.stores.sqlite import SqliteStore
from headgate.testing import job, worker

SETTINGS = Settings(fixed_busy=0)


def headgate_db(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate", "db", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done


def in_json(*arguments: object) -> tuple[int, Any]:
    done = headgate_db(*arguments, "--json")
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a running job and one that has ended."""
    path = tmp_path / "headgate.db"
    engine = start_engine(SqliteStore(path), SETTINGS)
    engine.do(c.RegisterWorker(worker("w", slots=2)))
    engine.do(c.Submit((c.NewJob("running", job("job")), c.NewJob("ended", job("job")))))
    leases = engine.read(lambda state: {lease.job_id: lease for lease in state.leases.values()})
    for lease in leases.values():
        engine.do(c.Start(lease.id, lease.token))
    engine.do(c.Complete(leases["ended"].id, leases["ended"].token))
    engine.stop()
    return path


def test_a_sound_database_is_ok_and_unchanged(path: Path) -> None:
    before = path.read_bytes()
    done = headgate_db("verify", path)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert in_json("verify", f"sqlite://{path}") == (0, {"ok": True, "problems": [], "notes": []})
    assert path.read_bytes() == before


def test_a_database_in_use_can_be_verified_and_copied(path: Path, tmp_path: Path) -> None:
    engine = start_engine(SqliteStore(path), SETTINGS)
    engine.do(c.Submit((c.NewJob("more", job("job")),)))
    assert headgate_db("verify", path).returncode == 0
    assert headgate_db("backup", path, tmp_path / "copy.db").returncode == 0
    engine.do(c.Submit((c.NewJob("later", job("job")),)))
    engine.stop()
    copy = start_engine(SqliteStore(tmp_path / "copy.db"), SETTINGS)
    assert sum(sum(of.values()) for of in copy.ask(CountJobs()).values()) == 3
    copy.stop()


def test_rows_that_the_journal_does_not_explain_are_a_problem(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE history SET state = 'failed'")
    connection.close()
    done = headgate_db("verify", path)
    assert done.returncode == 1
    assert "problem: end 2: the journal gives" in done.stdout
    code, answer = in_json("verify", path)
    assert (code, answer["ok"], len(answer["problems"])) == (1, False, 1)


def test_rows_that_contradict_each_other_are_a_problem(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM job WHERE id = 'ended'")
    connection.close()
    done = headgate_db("verify", path)
    assert done.returncode == 1
    assert "which does not exist" in done.stdout


def test_a_damaged_page_is_a_problem_in_one_line(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    done = headgate_db("verify", path)
    assert done.returncode in (1, 65)
    assert done.stdout + done.stderr != ""


def test_a_journal_that_was_cut_short_by_its_age_is_noted(path: Path) -> None:
    assert headgate_db("compact", path, "--events", "0s").returncode == 0
    engine = start_engine(SqliteStore(path), SETTINGS)
    engine.do(c.Submit((c.NewJob("more", job("job")),)))
    engine.stop()
    done = headgate_db("verify", path)
    assert done.returncode == 0
    assert "note: the journal begins at commit" in done.stdout


def test_a_restored_database_refuses_what_the_original_s_workers_say(path: Path, tmp_path: Path) -> None:
    copy, again = tmp_path / "copy.db", tmp_path / "again.db"
    assert headgate_db("backup", path, copy).returncode == 0
    original = start_engine(SqliteStore(path), SETTINGS)
    (held,) = original.read(lambda state: list(state.leases.values()))
    original.stop()
    assert headgate_db("restore", copy, again).returncode == 0
    engine = start_engine(SqliteStore(again), SETTINGS)
    with pytest.raises((StaleLease, OutcomeConflict)):
        engine.do(c.Complete(held.id, held.token))
    assert engine.ask(GetJob("ended")).state == "completed"
    engine.stop()
    assert headgate_db("verify", again).returncode == 0


def test_compacting_says_how_much_went_and_keeps_live_jobs(path: Path) -> None:
    code, gone = in_json("compact", path, "--jobs", "0s", "--events", "0s", "--load", "7d")
    assert (code, gone["jobs"], gone["ok"]) == (0, 1, True)
    assert gone["journal"] > 0
    engine = start_engine(SqliteStore(path), SETTINGS)
    assert engine.ask(CountJobs()) == {"running": {"normal": 1}}
    engine.stop()


def test_a_compacted_database_is_as_sound_as_before(path: Path) -> None:
    assert headgate_db("compact", path, "--jobs", "0s").stdout.startswith("deleted 1 jobs, 0 histories, 0 journal")
    done = headgate_db("verify", path)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert headgate_db("compact", path, "--events", "0s").returncode == 0
    engine = start_engine(SqliteStore(path), SETTINGS)
    (held,) = engine.read(lambda state: list(state.leases.values()))
    engine.do(c.Complete(held.id, held.token))
    engine.stop()
    done = headgate_db("verify", path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ok")
    note = (
        r"note: the journal begins at commit \d+, what came before was deleted for its age: the rest was not replayed"
    )
    assert re.fullmatch(note, done.stdout.splitlines()[0]), done.stdout


def test_what_cannot_be_done_is_one_line_and_a_documented_exit_code(path: Path, tmp_path: Path) -> None:
    (tmp_path / "taken.db").write_text("mine", encoding="utf-8")
    for arguments, message in (
        (("verify", tmp_path / "nobody.db"), "there is no such file"),
        (("verify", tmp_path / "taken.db"), "not a SQLite database"),
        (("verify", "oracle://u:secret@host/db"), "oracle:// is not a kind of database"),
        (("verify", "postgresql://u:secret@127.0.0.1:1/db"), "127.0.0.1"),
        (("backup", path, tmp_path / "taken.db"), "exists already and is not overwritten"),
        (("backup", path, tmp_path / "no" / "where.db"), "does not exist"),
        (("restore", path, path), "exists already"),
        (("restore", tmp_path / "nobody.db", tmp_path / "new.db"), "there is no such file"),
        (("restore", path, "memory://"), "does not outlive the process"),
        (("compact", tmp_path / "nobody.db", "--jobs", "1d"), "there is no such file"),
        (("compact", path, "--jobs", "soon"), "jobs: 'soon' is not a duration"),
    ):
        done = headgate_db(*arguments)
        assert (done.returncode in MEANINGS, done.stdout) == (True, ""), arguments
        assert done.returncode != 0
        assert done.stderr.startswith("headgate db: ")
        assert done.stderr.count("\n") == 1
        assert message in done.stderr
        assert "secret" not in done.stderr
        code, answer = in_json(*arguments)
        assert (code, answer["ok"]) == (done.returncode, False)
        assert message in answer["error"]["message"]


def test_a_database_whose_owner_serves_nobody_is_not_compacted(path: Path) -> None:
    engine = start_engine(SqliteStore(path), SETTINGS)
    done = headgate_db("compact", path, "--jobs", "0s")
    engine.stop()
    assert done.returncode == UNAVAILABLE
    assert "is owned by process" in done.stderr
    assert "name it with --url" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_database_in_use_is_compacted_by_its_owner(path: Path) -> None:
    engine = open_engine(str(path), SETTINGS)
    done = headgate_db("compact", path, "--jobs", "0s", "--events", "0s")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("deleted 1 jobs, ")
    assert engine.ask(CountJobs()) == {"running": {"normal": 1}}
    assert engine.do(c.Submit((c.NewJob("more", job("job")),))).created == (True,)
    engine.stop()
    assert headgate_db("verify", path).returncode == 0


def test_without_ages_those_of_the_configuration_count(path: Path) -> None:
    done = headgate_db("compact", path)
    assert (done.returncode, "keeps everything for ever" in done.stderr) == (2, True)
    code, gone = in_json("compact", path, "--set", "core.retention.jobs=0s")
    assert (code, gone["jobs"]) == (0, 1)
    assert in_json("compact", path, "--set", "core.retention.jobs=forever")[0] == 2


@pytest.mark.parametrize("arguments", [(), ("backup",), ("fly", "x"), ("compact", "x", "--jobs")])
def test_a_command_line_that_makes_no_sense_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert headgate_db(*arguments).returncode == 2
