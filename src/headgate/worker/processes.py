"""Processes of jobs: each leads a group of its own, and the group is stopped as one: SIGTERM, grace, SIGKILL."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from headgate.core.errors import HeadgateError
from headgate.ports import Clock
from headgate.worker.context import JobContext
from headgate.worker.output import Output

_CHUNK = 1 << 16


class ProcessFailed(HeadgateError):
    """A process of a job did not end well."""

    def __init__(self, code: str, message: str, exit_status: int | None = None) -> None:
        super().__init__(message)
        self.failure_code = code
        self.exit_status = exit_status


class Watched:
    """A running process, its output, and the wish to stop it."""

    def __init__(self, pid: int, pidfd: int, pipe: int, context: JobContext, output: Output, clock: Clock) -> None:
        self.pid = pid
        self.exited = False
        self._pidfd = pidfd
        self._pipe = pipe
        self._context = context
        self._output = output
        self._clock = clock
        self._kill_at: int | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        for descriptor in (pidfd, self._wake, pipe):
            self._poll.register(descriptor, select.POLLIN)
        os.set_blocking(pipe, False)
        context.on_stop(self._ask)

    def watch(self, descriptor: int) -> None:
        """Come back from `step` when this one has something, too."""
        self._poll.register(descriptor, select.POLLIN)

    def step(self) -> set[int]:
        """Wait until something happens; the descriptors that are ready. Output is taken in, a stop is carried out."""
        ready = {descriptor for descriptor, _ in self._poll.poll(self._patience())}
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        if self._pipe in ready and not self.read():
            self._poll.unregister(self._pipe)
        if self._pidfd in ready:
            self.exited = True
        self._press()
        return ready

    def read(self) -> bool:
        """Take in what the process has printed; false at the end of it."""
        while True:
            try:
                data = os.read(self._pipe, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._output.add(data)

    def close(self) -> None:
        """Let go of the wake-up; the caller owns the rest."""
        wake, self._wake = self._wake, -1
        if wake >= 0:
            os.close(wake)

    def _ask(self) -> None:
        """Called by whoever stops the job."""
        kill_group(self.pid, signal.SIGTERM)
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def _press(self) -> None:
        if self.exited or not self._context.stopped:
            return
        if self._kill_at is None:
            self._kill_at = self._clock.now() + round(self._context.grace * 1000)
        if self._clock.now() >= self._kill_at:
            kill_group(self.pid, signal.SIGKILL)

    def _patience(self) -> int | None:
        if self._kill_at is None:
            return None
        return max(1, min(200, self._kill_at - self._clock.now()))


def kill_group(pid: int, how: signal.Signals) -> None:
    """Signal every process of the group that `pid` leads; that it is gone already is no problem."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, how)


def say_status(status: int) -> tuple[str, str, int]:
    """How a process ended: a code, words, and the number that a shell would give."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return "killed", f"killed by {name}", 128 + number
    code = os.waitstatus_to_exitcode(status)
    return "exit_status", f"exited with status {code}", code
