"""A running `headgate up` in a directory of its own, and eyes on its processes."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.cli.running import Done, headgate

QUICK: tuple[str, ...] = (
    "--port",
    "0",
    "--json",
    "--load",
    "0",
    "--set",
    "core.lease_ttl=3s",
    "--set",
    "workers.grace=1s",
)
# On a busy machine a policy may need longer than is good for a service; these tests are about something else.
QUICK += ("--set", "policy.host.limit_ms=5000", "--set", "policy.host.platform_limit_ms=5000")
PATIENCE = 60.0


class House:
    """The process, and commands that talk to it."""

    def __init__(self, directory: Path, *flags: str, **environment: str) -> None:
        self.directory = directory
        outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        command = [sys.executable, "-m", "headgate", "up", *flags]
        self.errors = (directory / "stderr.log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command, cwd=directory, env={**outside, **environment}, stdout=subprocess.PIPE, stderr=self.errors
        )
        self._printed = b""
        self.facts: dict[str, Any] = {}

    def ready(self) -> "House":
        """Wait for the line that says where it serves."""
        self.facts = json.loads(self.line())
        return self

    def line(self) -> str:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._printed:
                assert waiting.select(PATIENCE), f"nothing was printed: {self.said()}"
                more = os.read(self.process.stdout.fileno(), 65_536)
                assert more, f"it ended: {self.said()}"
                self._printed += more
        line, _, self._printed = self._printed.partition(b"\n")
        return line.decode()

    def said(self) -> str:
        return (self.directory / "stderr.log").read_text(encoding="utf-8")

    def do(self, *arguments: str, **more: Any) -> Done:
        return headgate(*arguments, cwd=self.directory, **more)

    def ask(self, *arguments: str) -> Any:
        done = self.do(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def family(self) -> list[psutil.Process]:
        """Every process that belongs to it, the head first."""
        head = psutil.Process(self.process.pid)
        return [head, *head.children(recursive=True)]

    def stop(self, which: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(which)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            members = self.family()
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()


@contextlib.contextmanager
def house(directory: Path, *flags: str, **environment: str) -> Iterator[House]:
    made = House(directory, *(flags or QUICK), **environment)
    try:
        yield made.ready()
    finally:
        made.close()


def all_gone(members: list[psutil.Process], within: float = 20.0) -> list[str]:
    """Those of the processes that are still there after a while."""
    _, alive = psutil.wait_procs(members, timeout=within)
    return [f"{member.pid} {' '.join(member.cmdline())}" for member in alive]


def until(check: Any, within: float = PATIENCE) -> Any:
    """Look again and again until there is an answer."""
    end = time.monotonic() + within  # noqa: TID251 - the deadline of a test
    while not (found := check()):
        assert time.monotonic() < end, "it did not happen in time"  # noqa: TID251 - as above
    return found
