"""Jobs that are commands: a fresh process in a group of its own, its output kept, its limits held."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from headgate.core.job import CommandRun
from headgate.ports import Clock
from headgate.worker.assignment import Assignment
from headgate.worker.context import JobContext
from headgate.worker.cradle import Launch, complaint
from headgate.worker.limits import Limiter
from headgate.worker.nursery import Nursery
from headgate.worker.output import Output
from headgate.worker.processes import ProcessFailed, Watched, kill_group, say_status

SECRETS = ("HEADGATE_TOKEN",)
"""Variables of the worker that its jobs do not get."""


class CommandFailed(ProcessFailed):
    """The command did not succeed."""


class Commands:
    """Runs commands through the cradle."""

    def __init__(self, nursery: Nursery, limiter: Limiter, clock: Clock) -> None:
        self._nursery = nursery
        self._limiter = limiter
        self._clock = clock

    def run(self, work: Assignment, run: CommandRun, context: JobContext, output: Output) -> bytes:
        """Run it to its end; the result as JSON. The payload, unless it is null, is its standard input."""
        group, limits = self._limiter.prepare(work)
        launch = Launch(list(run.argv), _environment(work, run), run.cwd, limits, group.procs if group else None)
        read, write = os.pipe()
        try:
            pid, note = self._start(launch, work, write)
            try:
                status = self._follow(pid, read, context, output)
                why = complaint(note)
            finally:
                os.close(note)
        finally:
            os.close(read)
            if group is not None:
                group.kill()
        if status != 0:
            raise _failed(status, why, run)
        return b'{"exit_code":0}'

    def _start(self, launch: Launch, work: Assignment, write: int) -> tuple[int, int]:
        if work.payload == b"null":
            entry = os.open(os.devnull, os.O_RDONLY)
        else:
            entry, feeding = os.pipe()
            threading.Thread(target=_feed, args=(feeding, work.payload), daemon=True).start()
        try:
            return self._nursery.start(launch, entry, write)
        finally:
            os.close(entry)
            os.close(write)

    def _follow(self, pid: int, read: int, context: JobContext, output: Output) -> int:
        pidfd = os.pidfd_open(pid)
        watched = Watched(pid, pidfd, read, context, output, self._clock)
        try:
            while not watched.exited:
                watched.step()
            watched.read()
        finally:
            kill_group(pid, signal.SIGKILL)  # nothing may go on without a lease
            watched.close()
            os.close(pidfd)
        return self._nursery.wait(pid)


def _environment(work: Assignment, run: CommandRun) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return env | {"HEADGATE_JOB_ID": work.job_id, "HEADGATE_ATTEMPT": str(work.attempt)} | dict(run.env)


def _failed(status: int, why: str, run: CommandRun) -> CommandFailed:
    if why:
        return CommandFailed("not_started", f"{run.argv[0]} cannot be run: {why}")
    return CommandFailed(*say_status(status))


def _feed(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError), open(descriptor, "wb") as pipe:
        pipe.write(data)
