"""Worker processes of an app: each is a fresh interpreter that loads the app and works until it is told to stop.

One that dies is replaced, later and later while it keeps dying; when none gets anywhere, all are given up.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any, Self

import msgspec

from headgate.bootstrap.family import GIVE_UP, Restarts, how_it_ended
from headgate.client.errors import WorkersFailed
from headgate.system import stopwatch

_log = logging.getLogger(__name__)
_LOOK = 0.25
"""Seconds between two looks at the processes."""


class Orders(msgspec.Struct):
    """What a worker process is told on its command line."""

    source: str
    address: str
    how: dict[str, Any] = {}


class _Place:
    """Where one process is wanted."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.restarts = Restarts()
        self.began = stopwatch()
        self.due: float | None = None
        """When the next process is started, once this one has ended."""
        self.given_up = False

    def look(self) -> bool:
        """Whether it is time for another process."""
        code = self.process.poll()
        if code is None or self.given_up:
            return False
        if self.due is None:
            self._ended(code)
        return self.due is not None and stopwatch() >= self.due

    def take(self, process: subprocess.Popen[bytes]) -> None:
        """Another process is here."""
        self.process, self.began, self.due = process, stopwatch(), None

    def _ended(self, code: int) -> None:
        pause = self.restarts.after(code, stopwatch() - self.began)
        if self.process.stdin is not None:
            self.process.stdin.close()
        if pause is None:
            self.given_up = True
            _log.error("a worker process ended (%s) %d times in a row at once: given up", how_it_ended(code), GIVE_UP)
            return
        _log.warning("a worker process ended (%s); another one follows in %g s", how_it_ended(code), pause)
        self.due = stopwatch() + pause


class WorkerProcesses:
    """Starts processes, replaces those that die, and stops them all."""

    def __init__(self, source: str, address: str, how: Mapping[str, Any], *, token: str | None = None) -> None:
        self._orders = msgspec.json.encode(Orders(source, address, dict(how))).decode()
        self._env = {**os.environ, **({"HEADGATE_TOKEN": token} if token else {})}
        self._places: list[_Place] = []
        self._failed = False
        self._stopping = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        return [place.process.pid for place in self._places if place.process.returncode is None]

    def start(self, processes: int) -> Self:
        """Start so many."""
        self._places = [_Place(self._begin()) for _ in range(processes)]
        self._watch = threading.Thread(target=self._replace, name="headgate-workers", daemon=True)
        self._watch.start()
        return self

    def serve(self) -> None:
        """Wait for SIGTERM or Ctrl-C, then let the workers finish. `WorkersFailed` if none gets anywhere."""
        before = {number: signal.signal(number, self._told) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._stopping.wait(1.0):
                pass
        finally:
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._failed:
            raise WorkersFailed

    def stop(self, patience: float = 45.0) -> None:
        """Have the workers drain, and wait for them; one that does not come to an end is killed."""
        self._stopping.set()
        if self._watch is not None and self._watch is not threading.current_thread():
            self._watch.join()
        processes = [place.process for place in self._places]
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in processes:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._places = []

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
        while not self._stopping.wait(_LOOK):
            for place in self._places:
                if place.look() and not self._stopping.is_set():
                    place.take(self._begin())
            if self._places and all(place.given_up for place in self._places):
                self._failed = True
                self._stopping.set()
