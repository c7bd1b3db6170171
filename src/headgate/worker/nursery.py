"""The worker's side of the cradle: starts processes through it, and keeps warm ones for Python handlers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import msgspec

from headgate.core.errors import HeadgateError
from headgate.ports import Clock
from headgate.worker.assignment import Assignment
from headgate.worker.context import JobContext
from headgate.worker.cradle import Launch, Order, Reply, complaint
from headgate.worker.frames import Said, receive_said, send
from headgate.worker.output import Output
from headgate.worker.processes import ProcessFailed, Watched, kill_group, say_status


class ProcessLost(ProcessFailed):
    """The process of the job went away before it had an answer."""


class HandlerFailed(HeadgateError):
    """The handler raised, in a process of its own; `said` is its word."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.error.message if said.error else "")
        self.said = said


class Nursery:
    """Starts the cradle when it is first needed. Safe from several threads."""

    def __init__(self, source: str, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._cradle: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._warm: list[Warm] = []

    def start(self, launch: Launch, entry: int, output: int) -> tuple[int, int]:
        """Start a process; its id, and a descriptor on which it may leave a note why it could not begin."""
        note = os.memfd_create("headgate-launch", os.MFD_CLOEXEC)
        os.write(note, msgspec.msgpack.encode(launch))
        try:
            return self._order(Order("start"), [note, output, entry]), note
        except BaseException:
            os.close(note)
            raise

    def wait(self, pid: int) -> int:
        """The status of a process that has ended."""
        return self._order(Order("wait", pid))

    def run(self, work: Assignment, context: JobContext, output: Output) -> bytes:
        """Have a warm process run a job; the result as JSON."""
        with self._lock:
            warm = self._warm.pop() if self._warm else None
        warm = warm or self._new_warm()
        keep = False
        try:
            said = warm.run(work, context, output)
            keep = not context.stopped
        finally:
            if keep:
                with self._lock:
                    self._warm.append(warm)
            else:
                warm.end()
        if said.error is not None:
            raise HandlerFailed(said)
        return said.result

    def close(self) -> None:
        """End the warm processes and the cradle."""
        with self._lock:
            warm, self._warm = self._warm, []
        for one in warm:
            one.end()
        with self._lock:
            control, self._control = self._control, None
            cradle, self._cradle = self._cradle, None
        if control is not None and cradle is not None:
            control.close()
            cradle.wait()

    def _new_warm(self) -> Warm:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        try:
            pid, note = self.start(Launch(), theirs.fileno(), write)
        except BaseException:
            ours.close()
            os.close(read)
            raise
        finally:
            theirs.close()
            os.close(write)
        return Warm(self, pid, ours, read, note, self._clock)

    def _order(self, order: Order, descriptors: list[int] | None = None) -> int:
        with self._lock:
            control = self._control or self._begin()
            try:
                socket.send_fds(control, [msgspec.msgpack.encode(order)], descriptors or [])
                frame = control.recv(4096)
            except OSError:
                frame = b""
            if not frame:
                self._drop()
                raise ProcessLost("no_cradle", "the process that starts the others went away")
        reply = msgspec.msgpack.decode(frame, type=Reply)
        if reply.error:
            raise ProcessLost("not_started", reply.error)
        return reply.value

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "headgate.worker.cradle", str(theirs.fileno())]
        if self._source:
            command.append(self._source)
        self._cradle = subprocess.Popen(command, pass_fds=[theirs.fileno()])  # noqa: S603 - our own module
        theirs.close()
        self._control = ours
        return ours

    def _drop(self) -> None:
        if self._control is not None and self._cradle is not None:
            self._control.close()
            self._cradle.wait()
        self._control = self._cradle = None


class Warm:
    """One warm process."""

    def __init__(self, nursery: Nursery, pid: int, link: socket.socket, pipe: int, note: int, clock: Clock) -> None:
        self._nursery = nursery
        self._pid = pid
        self._link = link
        self._pipe = pipe
        self._note = note
        self._pidfd = os.pidfd_open(pid)
        self._clock = clock

    def run(self, work: Assignment, context: JobContext, output: Output) -> Said:
        """Hand it a job and follow it to its end."""
        watched = Watched(self._pid, self._pidfd, self._pipe, context, output, self._clock)
        watched.watch(self._link.fileno())
        try:
            with contextlib.suppress(BrokenPipeError):
                send(self._link, work)
            while True:
                ready = watched.step()
                if self._link.fileno() in ready:
                    said = receive_said(self._link)
                    if said is None:
                        raise self._lost()
                    if said.done:
                        watched.read()
                        return said
                    context.progress(said.fraction, said.note)
                elif watched.exited:
                    raise self._lost()
        finally:
            watched.close()

    def _lost(self) -> ProcessLost:
        kill_group(self._pid, signal.SIGKILL)
        pid, self._pid = self._pid, 0
        status = self._nursery.wait(pid)
        if why := complaint(self._note):
            return ProcessLost("not_started", why)
        return ProcessLost(*say_status(status))

    def end(self) -> None:
        """Kill it with everything that it started."""
        self._link.close()
        if self._pid:
            kill_group(self._pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLost):
                self._nursery.wait(self._pid)
            self._pid = 0
        for descriptor in (self._pidfd, self._pipe, self._note):
            os.close(descriptor)
