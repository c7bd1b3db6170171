"""The tutorial happens as it is written: every command is run, and what it prints is held against what is shown."""

import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.up.house import PATIENCE, House, all_gone

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "service.md"
BLOCK = re.compile(r"(<!-- terminal: server -->\n)?```console\n(.*?)```", re.DOTALL)
END = "--- end of command"
SLOW_MACHINES = ("--port", "0", "--set", "policy.host.limit_ms=5000", "--set", "policy.host.platform_limit_ms=5000")


class Step(NamedTuple):
    command: str
    shown: str


def steps(text: str) -> Iterator[Step]:
    """Commands with the output that is shown under them."""
    command, shown = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield Step(command, "\n".join(shown))
            command, shown = line[2:], []
        elif line.startswith("> ") or line == ">":
            command += "\n" + line[2:]
        else:
            shown.append(line)
    yield Step(command, "\n".join(shown))


def matches(shown: str, printed: str) -> bool:
    """Whether the output is as shown, where `...` stands for anything and runs of spaces for one."""
    pattern = re.escape(" ".join(shown.split())).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern.replace(r"\ .*\ ", r"\ .*\ ?").strip(), " ".join(printed.split())) is not None


class Shell:
    """The second terminal."""

    def __init__(self, directory: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        self.process = subprocess.Popen(
            ["bash"],
            cwd=directory,
            env={**outside, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def do(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\necho '{END}'\n".encode())
        self.process.stdin.flush()
        printed = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while END.encode() not in printed:
                assert waiting.select(PATIENCE), f"{command}\nstill runs after having printed\n{printed.decode()}"
                printed += os.read(self.process.stdout.fileno(), 65_536)
        return printed.decode().partition(END)[0]

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # with whatever was started in the background
        self.process.communicate()


def blocks() -> list[tuple[bool, str]]:
    return [(bool(server), text) for server, text in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]


@pytest.mark.timeout(400)
def test_the_tutorial_happens_as_it_is_written(tmp_path: Path) -> None:
    (first, *others) = blocks()
    assert first[0]
    (start,) = steps(first[1])
    flags = start.command.split()[2:]
    home, shell = House(tmp_path, *flags, *SLOW_MACHINES), Shell(tmp_path)
    try:
        printed = ""
        while "stop      Ctrl-C" not in printed:
            printed += home.line() + "\n"
        assert matches(start.shown, printed), printed
        for _, text in others:
            for step in steps(text):
                said = shell.do(step.command)
                assert matches(step.shown, said), f"$ {step.command}\nshown:\n{step.shown}\nprinted:\n{said}"
        members = home.family()
        assert home.stop() == 0
        assert all_gone(members) == []
    finally:
        shell.close()
        home.close()


def test_output_that_differs_would_be_noticed() -> None:
    assert matches("10 completed", "     10 completed\n")
    assert not matches("10 completed", "9 completed\n1 failed\n")
    assert matches("... is queued\n...", "01KX is queued\n 3 jobs go first\n")
    assert not matches("hello", "")
