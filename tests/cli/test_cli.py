"""The command line as a user meets it: as a process."""

import subprocess
import sys
import tomllib
from pathlib import Path

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))


def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_version_is_the_one_of_the_package() -> None:
    done = headgate("--version")
    assert (done.returncode, done.stdout) == (0, f"headgate {PYPROJECT['project']['version']}\n")


def test_help_lists_the_commands() -> None:
    done = headgate("--help")
    assert done.returncode == 0
    assert "up" in done.stdout


def test_no_command_shows_the_help() -> None:
    assert headgate().stdout == headgate("--help").stdout


def test_up_says_that_there_is_no_server_and_fails_without_a_traceback() -> None:
    done = headgate("up")
    assert done.returncode == 69
    assert "no server yet" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_command_is_refused_by_name() -> None:
    done = headgate("fly")
    assert done.returncode == 2
    assert "'fly'" in done.stderr
