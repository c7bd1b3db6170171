"""The cradle: a small process from which the processes of jobs are forked, and which outlives none of them.

A fork from a large or threaded process is slow and dangerous, so the worker keeps this one beside it. When the worker
goes, however it goes, the connection ends and the cradle kills every group that it started: nothing runs on without
somebody who renews its lease. It runs as `python -m headgate.worker.cradle DESCRIPTOR [SOURCE]`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

import msgspec

_PR_SET_PDEATHSIG = 1
NOT_STARTED = 127


class Launch(msgspec.Struct):
    """What to start: a command, or with no `argv` a warm process for Python handlers."""

    argv: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    limits: list[tuple[int, int]] = []
    procs: str | None = None
    """The file by which the process enters its cgroup."""


class Order(msgspec.Struct):
    """`start` with the descriptors (launch, output, input) or `wait` for a process that has ended."""

    verb: str
    pid: int = 0


class Reply(msgspec.Struct):
    """The process that was started, or the status of the one that ended; or what went wrong."""

    value: int = 0
    error: str = ""


_order = msgspec.msgpack.Decoder(Order).decode
_launch = msgspec.msgpack.Decoder(Launch).decode


def complaint(note: int) -> str:
    """Why a process could not begin, if it left a note of that; a launch that was read begins with no letter."""
    text = os.pread(note, 2_000, 0)
    return text.decode("utf-8", "replace") if text[:1].isalpha() else ""


class Cradle:
    """Serves one worker until the connection ends."""

    def __init__(self, control: socket.socket, source: str) -> None:
        self._control = control
        self._source = source
        self._children: set[int] = set()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def serve(self) -> None:
        """One order after the other; at the end everything that was started is killed."""
        try:
            while True:
                frame, descriptors, _, _ = socket.recv_fds(self._control, 4096, 3)
                if not frame:
                    return
                self._control.send(msgspec.msgpack.encode(self._obey(_order(frame), descriptors)))
        except ConnectionError:
            return
        finally:
            for pid in self._children:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)

    def _obey(self, order: Order, descriptors: list[int]) -> Reply:
        try:
            if order.verb == "wait":
                self._children.discard(order.pid)
                return Reply(os.waitpid(order.pid, 0)[1])
            pid = os.fork()
        except OSError as error:
            return Reply(error=str(error))
        if pid == 0:
            self._become(*descriptors)
        self._children.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return Reply(pid)

    def _become(self, note: int, output: int, entry: int) -> NoReturn:
        """In the child: what is started leads a group of its own and dies with the cradle."""
        status = NOT_STARTED
        try:
            os.setsid()
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            self._control.close()
            launch = _launch(os.pread(note, os.fstat(note).st_size, 0))
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            if launch.procs is not None:
                with contextlib.suppress(OSError), open(launch.procs, "w") as procs:  # noqa: PTH123 - no imports now
                    procs.write("0")
            for what, limit in launch.limits:
                resource.setrlimit(what, (limit, limit))
            if launch.argv:
                _execute(launch, note, entry)
            else:
                status = _warm(entry, self._source)
        except BaseException as error:  # noqa: BLE001 - the last stop of a forked child: it must not return
            os.ftruncate(note, 0)
            os.pwrite(note, f"{type(error).__name__}: {error}".encode(), 0)
        finally:
            os._exit(status)


def _execute(launch: Launch, note: int, entry: int) -> NoReturn:
    os.dup2(entry, 0)
    os.close(entry)
    os.set_inheritable(note, False)
    if launch.cwd is not None:
        os.chdir(launch.cwd)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(launch.argv[0], launch.argv, launch.env)  # noqa: S606 - no shell is the point


def _warm(entry: int, source: str) -> int:
    from headgate.worker.nursling import serve  # noqa: PLC0415 - commands need none of this

    return serve(entry, source)


def main() -> None:
    """Entry of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when it is over
    control = socket.socket(fileno=int(sys.argv[1]))
    source = sys.argv[2] if len(sys.argv) > 2 else ""
    if source:
        from headgate.worker.sources import load_handlers  # noqa: PLC0415 - commands need none of this

        load_handlers(source)  # once here, so that every fork has it
    Cradle(control, source).serve()


if __name__ == "__main__":
    main()
