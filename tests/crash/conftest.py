"""Processes that tests start, tell what to do, and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from tests.stores.conftest import postgres_home, postgres_server

__all__ = ["postgres_home", "postgres_server"]

ROOT = Path(__file__).parents[2]


class Process:
    """A child that says one line at a time."""

    def __init__(self, *arguments: str, failpoints: str = "") -> None:
        environment = {**os.environ, "HEADGATE_FAILPOINTS": failpoints}
        command = [sys.executable, "-m", "tests.crash.child", *arguments]
        self._child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._input, self._output = self._child.stdin, self._child.stdout
        self.pid = self._child.pid

    def line(self) -> str:
        """The next thing it says; empty when it has ended."""
        return self._output.readline().strip()

    def tell(self, order: str) -> None:
        self._input.write(order + "\n")
        self._input.flush()

    def ask(self, order: str) -> str:
        self.tell(order)
        return self.line()

    def rest(self) -> list[str]:
        """Everything that it said until it ended. A line that was cut off was not said."""
        lines = [line.strip() for line in self._output if line.endswith("\n")]
        self._child.wait()
        return lines

    def kill(self) -> list[str]:
        """Kill it with -9; what it had said by then and was not read."""
        self._child.kill()
        return self.rest()

    def freeze(self) -> None:
        """Stop it in its tracks, and wait until it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> int:
        """Close its input and wait until it has gone."""
        self._input.close()
        self.rest()
        return self._child.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._input, self._output):
            try:
                pipe.close()
            except BrokenPipeError:  # an order that nobody was left to read
                continue


Run = Callable[..., Process]


@pytest.fixture
def run() -> Iterator[Run]:
    with ExitStack() as stack:
        yield lambda *arguments, failpoints="": stack.enter_context(
            Process(*map(str, arguments), failpoints=failpoints)
        )


@pytest.fixture
def path() -> Iterator[Path]:
    """A file in memory where there is such a place: a kill loses no page of it, and no busy disk slows the tests."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="headgate-", dir=shared if shared.is_dir() else None) as directory:
        yield Path(directory) / "headgate.db"
