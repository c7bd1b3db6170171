"""What a queue must be able to do to be measured. Imported by the queues' own environments: standard library only.

A `Peer` submits jobs, singly and in bulk, and starts and ends its workers. The job is the same for all: an integer and
a text of 100 bytes; its body leaves a mark (`bench.marks`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from bench.marks import mark

R = TypeVar("R")
TEXT = "x" * 100
SLOW = "slow".ljust(100, "x")
"""The text of a job that takes half a second, to be killed in the middle."""
SLOW_SECONDS = 0.5
ENDED = 1_000_000_000
"""Added to a slow job's number in the mark of its end."""
BULK = 1_000
PATIENCE = 10.0


def work(number: int, text: str) -> None:
    """The body of the job."""
    mark(number)
    if text == SLOW:
        time.sleep(SLOW_SECONDS)
        mark(ENDED + number)


async def work_async(number: int, text: str) -> None:
    """The same for queues whose jobs are coroutines."""
    mark(number)
    if text == SLOW:
        await asyncio.sleep(SLOW_SECONDS)
        mark(ENDED + number)


def setting(name: str) -> str:
    """What the benchmark tells the queue and its workers: `redis`, `postgres`, `directory`, `variant`."""
    return os.environ.get(f"BENCH_{name.upper()}", "")


def parts(numbers: Sequence[int], size: int = BULK) -> Iterator[Sequence[int]]:
    """Numbers in portions of a bulk call."""
    return (numbers[first : first + size] for first in range(0, len(numbers), size))


class Peer:
    """A queue with its workers."""

    has_bulk: ClassVar[bool] = False

    def __init__(self) -> None:
        self._workers: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Connect to a fresh, empty broker."""

    def submit(self, number: int, text: str) -> None:
        """Queue one job."""
        raise NotImplementedError

    def submit_each(self, numbers: Sequence[int], text: str) -> None:
        """Queue jobs one by one."""
        for number in numbers:
            self.submit(number, text)

    def bulk(self, numbers: Sequence[int], text: str) -> None:
        """Queue many jobs by the queue's bulk form."""
        raise NotImplementedError

    def fill(self, numbers: Sequence[int], text: str) -> None:
        """Queue jobs the quickest way; nobody looks at the clock."""
        (self.bulk if self.has_bulk else self.submit_each)(numbers, text)
        self.settle()

    def settle(self) -> None:
        """What a careful operator would do after filling the queue."""

    def lives(self, clients: int, each: int) -> float:
        """Full lives per second of clients who submit a job, wait for its run, and submit the next."""
        raise NotImplementedError

    def commands(self) -> list[list[str]]:
        """The command lines that start two worker processes."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the workers; they are not up yet when this returns."""
        with (Path(setting("directory")) / "workers.log").open("ab") as log:
            self._workers = [
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - our own list
                for command in self.commands()
            ]

    def pids(self) -> list[int]:
        """Every process of the workers."""
        return [pid for worker in self._workers for pid in family(worker.pid)]

    def stop(self) -> None:
        """End the workers, kindly first."""
        left = self.pids()
        for worker in self._workers:
            worker.terminate()
        end = time.monotonic() + PATIENCE
        for worker in self._workers:
            try:
                worker.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
        kill(left)
        self._forget()

    def kill(self) -> None:
        """End every process of the workers with SIGKILL."""
        kill(self.pids())
        self._forget()

    def close(self) -> None:
        """Let go of the broker."""

    def _forget(self) -> None:
        for worker in self._workers:
            worker.wait()
        self._workers = []


class AsyncPeer(Peer):
    """A queue whose calls are coroutines, all on one event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=self.loop_factory())

    @staticmethod
    def loop_factory() -> Any:
        """What makes the event loop; None for the usual one."""
        return None

    def run(self, call: Coroutine[Any, Any, R]) -> R:
        """Wait for a coroutine."""
        return self._runner.run(call)

    async def send(self, number: int, text: str) -> None:
        """Queue one job."""
        raise NotImplementedError

    def submit(self, number: int, text: str) -> None:
        self.run(self.send(number, text))

    def submit_each(self, numbers: Sequence[int], text: str) -> None:
        async def all_of_them() -> None:
            for number in numbers:
                await self.send(number, text)

        self.run(all_of_them())

    def close(self) -> None:
        self._runner.close()


def program(name: str) -> str:
    """A program of the queue's own environment."""
    return str(Path(sys.executable).parent / name)


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # gone in the meantime
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def kill(pids: list[int]) -> None:
    """SIGKILL for each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
