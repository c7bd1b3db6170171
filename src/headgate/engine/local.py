"""One database, several processes: how they see the engine, which lives in the one that owns the file."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headgate.core import commands as c
from headgate.core.lease import Lease
from headgate.core.retention import Retention
from headgate.engine import wire
from headgate.engine.errors import EngineSilent, EngineUnreachable
from headgate.engine.questions import Question
from headgate.engine.working import WaitLease, Work, Worked
from headgate.ports import Compacted, StoreUnavailable

R = TypeVar("R")
_LONGEST_PATH = 100
_CREDENTIALS = struct.Struct("iII")
_INTERVAL = struct.Struct("@ll")
PATIENCE = 30.0
"""Seconds to wait for an answer that should come at once."""
_LONG = 600.0
"""Seconds that upkeep may take on top of that."""


class Face(Protocol):
    """What an engine looks like to its callers, wherever it lives."""

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command and return when its effects are durable."""
        ...

    def ask(self, question: Question[R]) -> R:
        """Answer a question."""
        ...

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time."""
        ...

    def work(self, asked: Work) -> Worked:
        """Carry out a worker's words and tell it what is new; wait for news if there is none."""
        ...

    def wait_lease(self, asked: WaitLease) -> Lease | None:
        """Wait until an external job has its lease; none if it has not in time, or has ended."""
        ...

    def compact(self, retention: Retention) -> Compacted:
        """Delete everything older than the given ages."""
        ...

    def stop(self) -> None:
        """Let go of everything."""
        ...


class LocalClient:
    """An engine that lives in another process. Each thread has a connection of its own.

    An owner that is stopped or stuck holds nobody up for ever: after `patience` seconds beyond what a question itself
    may take, `EngineSilent` says who it is. The answer, should it come, is not waited for any more.
    """

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._own = threading.local()
        self._all: set[socket.socket] = set()
        self._lock = threading.Lock()

    def do(self, command: c.Command[R]) -> R:
        """Carry out a command and return when its effects are durable."""
        return self._call(command)  # type: ignore[no-any-return]

    def ask(self, question: Question[R]) -> R:
        """Answer a question."""
        return self._call(question)  # type: ignore[no-any-return]

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time."""
        return bool(self._call(wire.WaitEnd(job_id, within), within))

    def work(self, asked: Work) -> Worked:
        """Carry out a worker's words and tell it what is new; wait for news if there is none."""
        return self._call(asked, asked.within)  # type: ignore[no-any-return]

    def wait_lease(self, asked: WaitLease) -> Lease | None:
        """Wait until an external job has its lease; none if it has not in time, or has ended."""
        return self._call(asked, asked.within)  # type: ignore[no-any-return]

    def compact(self, retention: Retention) -> Compacted:
        """Delete everything older than the given ages."""
        return self._call(wire.Compact(retention), _LONG)  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Close every connection; a thread that waits for an answer on one is told that there will be none."""
        with self._lock:
            for connection in self._all:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            self._all.clear()

    def _call(self, request: c.Command[Any] | Question[Any], within: float = 0.0) -> Any:
        own = self._own
        channel = self._channel()
        try:
            if own.patience != within + self._patience:
                own.patience = within + self._patience
                _wait_at_most(channel.connection, own.patience)
            channel.send(wire.encode_request(request))
            frame = channel.receive()
        except BlockingIOError as error:  # so the system says that the time is over
            self._drop(channel.connection)
            raise self._silent(request) from error
        except OSError as error:
            self._drop(channel.connection)
            raise EngineUnreachable(f"the owner of {self._path.stem} went away") from error
        if frame is None:
            self._drop(channel.connection)
            raise EngineUnreachable(f"the owner of {self._path.stem} went away")
        return wire.decode_answer(request, frame)

    def _silent(self, request: object) -> EngineSilent:
        pid: int = self._own.pid
        unknown = "" if isinstance(request, Question) else "; whether the command was carried out is unknown"
        return EngineSilent(
            f"process {pid} owns {self._path.stem} and has not answered for {self._patience:g} s: "
            f"it is stopped or overloaded{unknown}",
            pid=pid,
        )

    def _channel(self) -> wire.Channel:
        channel: wire.Channel | None = getattr(self._own, "channel", None)
        if channel is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            _wait_at_most(connection, self._patience)
            try:
                with reachable(self._path) as address:
                    connection.connect(address)
            except OSError as error:
                connection.close()
                raise EngineUnreachable(f"nobody answers at {self._path.name}") from error
            channel = self._own.channel = wire.Channel(connection)
            self._own.pid, self._own.patience = _pid_of(connection), self._patience
            with self._lock:
                self._all.add(connection)
        return channel

    def _drop(self, connection: socket.socket) -> None:
        self._own.channel = None
        with self._lock:
            self._all.discard(connection)
        connection.close()


def _wait_at_most(connection: socket.socket, seconds: float) -> None:
    """Let the system keep the time: a timeout of Python's own costs a call to it before each that it guards."""
    interval = _INTERVAL.pack(int(seconds), int(seconds % 1 * 1_000_000))
    for side in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, side, interval)


def _pid_of(connection: socket.socket) -> int:
    """The process at the other end, as the system knows it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """An address for a socket whose path may be longer than the system allows."""
    if len(str(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StoreUnavailable(f"{path.parent} cannot be opened: {error.strerror}") from error
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
