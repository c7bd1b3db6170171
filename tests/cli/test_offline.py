"""Commands that need no server: policies on disk, the database at rest, completion, this machine's load."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from headgate.bootstrap.engine import start_engine
from headgate.cli import exits
from headgate.core.commands import NewJob, Submit
from headgate.core.job_input import parse_job
from headgate.stores.sqlite import SqliteStore
from tests.cli.running import headgate

BROKEN = "scheduler:\n  name: mine\n  rules:\n    - name: one\n      actoin: {order: fifo}\n"


def database(path: Path, jobs: int = 3) -> Path:
    engine = start_engine(SqliteStore(path))
    engine.do(Submit(tuple(NewJob(f"job-{number}", parse_job({})) for number in range(jobs))))
    engine.stop()
    return path


# -- policies -------------------------------------------------------------------------------------------------------


def test_a_template_becomes_a_file_that_passes_its_check(tmp_path: Path) -> None:
    listed = json.loads(headgate("policy", "new", "--list", "--json").stdout)
    yaml = next(each["name"] for each in listed if each["language"] == "yaml")
    assert headgate("policy", "new", "--template", yaml, "mine.yaml", cwd=tmp_path).returncode == exits.DONE
    done = headgate("policy", "check", "mine.yaml", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (exits.DONE, True)
    again = headgate("policy", "new", "--template", yaml, "mine.yaml", cwd=tmp_path)
    assert (again.returncode, "exists" in again.stderr) == (exits.CANNOT_CREATE, True)


def test_a_broken_policy_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(BROKEN)
    done = headgate("policy", "check", "mine.yaml", cwd=tmp_path)
    assert done.returncode == exits.FAILED
    assert "mine.yaml:5:7: error: unknown key 'actoin' (did you mean 'action'?)" in done.stdout


def test_what_is_no_policy_file_is_refused_by_name(tmp_path: Path) -> None:
    assert headgate("policy", "check", "mine.txt", cwd=tmp_path).returncode == exits.BAD_INPUT
    missing = headgate("policy", "check", "mine.lua", cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (
        exits.NOT_FOUND,
        "headgate policy: mine.lua: No such file or directory\n",
    )
    assert headgate("policy", "new", "--template", "nonesuch").returncode == exits.NOT_FOUND


# -- the database ---------------------------------------------------------------------------------------------------


def test_the_database_of_the_configuration_is_meant_where_none_is_named(tmp_path: Path) -> None:
    database(tmp_path / "a.db")
    (tmp_path / "headgate.yaml").write_text("database: a.db\n")
    assert headgate("db", "verify", cwd=tmp_path).stdout == "ok\n"
    assert headgate("db", "backup", "copy.db", cwd=tmp_path).stdout == "copied to copy.db\n"
    assert headgate("db", "migrate", "copy.db", cwd=tmp_path).stdout == "the database fits this version\n"
    assert headgate("db", "restore", "copy.db", "b.db", cwd=tmp_path).returncode == exits.DONE
    assert headgate("db", "migrate", "no.db", cwd=tmp_path).returncode == exits.UNAVAILABLE
    assert not (tmp_path / "no.db").exists()


# -- the configuration ----------------------------------------------------------------------------------------------


def test_a_wrong_configuration_ends_every_command_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "headgate.yaml").write_text("core:\n  lease_tll: 10s\n")
    for command in (["config", "check"], ["config", "show"], ["up"], ["db", "verify"]):
        done = headgate(*command, cwd=tmp_path)
        assert done.returncode == exits.BAD_CONFIG
        assert "headgate.yaml:2:3: unknown key 'lease_tll' in core; did you mean 'lease_ttl'?" in done.stderr


def test_the_configuration_is_shown_with_its_origins(tmp_path: Path) -> None:
    (tmp_path / "headgate.yaml").write_text("core:\n  lease_ttl: 10s\n")
    done = headgate("config", "show", "--changed", cwd=tmp_path, HEADGATE_SERVER_PORT="9000")
    assert done.stdout == (
        "server:\n  port: 9000  # HEADGATE_SERVER_PORT\ncore:\n  lease_ttl: 10000  # headgate.yaml:2\n"
    )
    shown = json.loads(headgate("config", "show", "--json", cwd=tmp_path).stdout)
    assert shown["core.lease_ttl"] == {"value": 10_000, "origin": "headgate.yaml:2"}


# -- completion and load --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_accepted_by_its_shell(shell: str, tmp_path: Path) -> None:
    script = headgate("completion", shell).stdout
    assert "headgate" in script
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_commands_actions_and_options(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(headgate("completion", "bash").stdout)
    asked = f"""source {tmp_path / "script"}
    ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _headgate; echo "${{COMPREPLY[*]}}"; }}
    ask headgate po; ask headgate policy ro; ask headgate policy deploy --sh; ask headgate jobs --ten"""
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["pool pools policy", "rollback", "--shadow", "--tenant"]


def test_the_load_of_this_machine_can_be_seen_without_a_server() -> None:
    found = json.loads(headgate("load", "--here", "--json").stdout)
    assert 0 <= found["busy"] <= 10
    assert {"cpu", "memory", "disk"} <= set(found["signals"])
