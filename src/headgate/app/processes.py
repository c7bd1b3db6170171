"""Worker processes of an app: each is a fresh interpreter that loads the app and works until it is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any, Self

import msgspec

_AGAIN = 0.5
"""Seconds before a worker that died is replaced."""


class Orders(msgspec.Struct):
    """What a worker process is told on its command line."""

    source: str
    address: str
    how: dict[str, Any] = {}


class WorkerProcesses:
    """Starts processes, replaces those that die, and stops them all."""

    def __init__(self, source: str, address: str, how: Mapping[str, Any], *, token: str | None = None) -> None:
        self._orders = msgspec.json.encode(Orders(source, address, dict(how))).decode()
        self._env = {**os.environ, **({"HEADGATE_TOKEN": token} if token else {})}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopping = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        return [process.pid for process in self._processes]

    def start(self, processes: int) -> Self:
        """Start so many."""
        self._processes = [self._begin() for _ in range(processes)]
        self._watch = threading.Thread(target=self._replace, name="headgate-workers", daemon=True)
        self._watch.start()
        return self

    def serve(self) -> None:
        """Wait for SIGTERM or Ctrl-C, then let the workers finish."""
        before = {number: signal.signal(number, self._told) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._stopping.wait(1.0):
                pass
        finally:
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self, patience: float = 45.0) -> None:
        """Have the workers drain, and wait for them; one that does not come to an end is killed."""
        self._stopping.set()
        if self._watch is not None and self._watch is not threading.current_thread():
            self._watch.join()
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _told(self, _: int, __: FrameType | None) -> None:
        self._stopping.set()

    def _begin(self) -> subprocess.Popen[bytes]:
        """Its input is a pipe from here: when this process goes, however it goes, the worker sees the end of it."""
        command = [sys.executable, "-m", "headgate.app.worker_main", self._orders]
        return subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=subprocess.PIPE, env=self._env, start_new_session=True
        )

    def _replace(self) -> None:
        while not self._stopping.wait(_AGAIN):
            for place, process in enumerate(self._processes):
                if process.poll() is not None and not self._stopping.is_set():
                    if process.stdin is not None:
                        process.stdin.close()
                    self._processes[place] = self._begin()
