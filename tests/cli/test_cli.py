"""The frame: help, names, exit codes, and how soon it is there."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headgate.cli import exits
from headgate.cli.frame import command_parser
from headgate.cli.shells import _actions
from headgate.cli.table import COMMANDS
from tests.cli.running import headgate

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACT = {
    *(
        "up",
        "submit",
        "run",
        "jobs",
        "job",
        "explain",
        "cancel",
        "retry",
        "leases",
        "workers",
        "pool",
        "pools",
        "tenants",
        "top",
    ),
    *("worker", "policy", "load", "db", "token", "config", "bench"),
}


def test_version_is_the_one_of_the_package() -> None:
    done = headgate("--version")
    assert (done.returncode, done.stdout) == (0, f"headgate {PYPROJECT['project']['version']}\n")


def test_help_lists_every_command_of_the_contract() -> None:
    done = headgate("--help")
    assert done.returncode == 0
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and line.split()}
    assert listed >= CONTRACT


def test_no_command_shows_the_help() -> None:
    assert headgate().stdout == headgate("--help").stdout


def test_an_unknown_command_is_refused_with_the_nearest_one() -> None:
    done = headgate("job-s")
    assert done.returncode == exits.USAGE
    assert "'job-s'; did you mean 'jobs'?" in done.stderr


def test_an_option_before_the_command_is_refused() -> None:
    done = headgate("--json", "jobs")
    assert (done.returncode, "a command comes first" in done.stderr) == (exits.USAGE, True)


def test_help_imports_neither_the_engine_nor_anything_from_outside() -> None:
    code = "import sys; from headgate.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted(name for name in sys.modules if name.startswith(('headgate', 'msgspec', 'apsw', 'http'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.splitlines()[-1]
    assert loaded == "['headgate', 'headgate.cli', 'headgate.cli.exits', 'headgate.cli.frame', 'headgate.cli.table']"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_json(name: str) -> None:
    parser = command_parser(name)
    assert f"headgate {name}" in parser.format_help().partition("examples:")[2]
    for one in _actions(parser).values() or [parser]:
        assert "--json" in one.format_help()


def test_where_nobody_serves_the_address_and_the_remedy_are_named(tmp_path: Path) -> None:
    done = headgate("jobs", "--url", "http://127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == exits.UNAVAILABLE
    assert done.stderr == "headgate jobs: nobody answers at http://127.0.0.1:1 (Connection refused)\n"


def test_a_worker_that_finds_nobody_gives_up_in_one_line(tmp_path: Path) -> None:
    done = headgate("worker", "--url", "http://127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == exits.UNAVAILABLE
    assert done.stderr == "headgate worker: nobody answers at http://127.0.0.1:1 (Connection refused)\n"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://x", "is not the address of a server, such as http://127.0.0.1:8420"),
        ("http://", "is not the address of a server"),
        ("http://host:99999", "Port out of range"),
        ("localhost:8420", "did you mean 'http://localhost:8420'?"),
        ("http://127.0.0.1:8420/#token=hg_x", "the token is said apart from it"),
    ],
)
def test_what_is_no_address_is_refused(tmp_path: Path, url: str, said: str) -> None:
    done = headgate("jobs", "--url", url, cwd=tmp_path)
    assert (done.returncode, said in done.stderr) == (exits.USAGE, True), done.stderr


def test_a_job_needs_something_to_run(tmp_path: Path) -> None:
    done = headgate("submit", "--url", "http://127.0.0.1:1", cwd=tmp_path)
    assert (done.returncode, "what to run comes after --" in done.stderr) == (exits.USAGE, True)


def test_a_token_file_that_others_could_have_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".headgate").mkdir()
    url = tmp_path / ".headgate" / "url"
    url.write_text("http://127.0.0.1:1\n")
    url.chmod(0o666)
    done = headgate("jobs", "--token", "x", cwd=tmp_path)
    assert "is not yours alone and is not used" in done.stderr
