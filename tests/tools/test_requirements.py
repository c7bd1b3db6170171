"""The pinned requirements fit the project and name no place to get them from."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;]+)(?: ; [^\\]+)? \\$")


def lines(file: str) -> list[str]:
    text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def pins(file: str) -> dict[str, str]:
    found = [PIN.match(line) for line in lines(file) if not line.startswith(" ")]
    return {match[1]: match[2] for match in found if match}


def package(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~ ;]", requirement)[0]).lower()


@pytest.mark.parametrize("file", ["dev.txt", "run.txt"])
def test_every_line_is_a_pin_or_a_hash(file: str) -> None:
    other = [
        line
        for line in lines(file)
        if not PIN.match(line) and not re.match(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$", line)
    ]
    assert other == []


def test_every_dependency_is_pinned() -> None:
    run = {package(requirement) for requirement in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    dev = {package(requirement) for requirement in extras["dev"]} - {"headgate"}
    assert run - pins("run.txt").keys() == set()
    assert (run | dev) - pins("dev.txt").keys() == set()


def test_running_and_developing_use_the_same_versions() -> None:
    assert pins("run.txt").items() <= pins("dev.txt").items()
