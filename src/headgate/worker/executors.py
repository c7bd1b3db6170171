"""How each kind of work is done. The result is JSON; whatever goes wrong is raised."""

from __future__ import annotations

from typing import Literal

from headgate.core.errors import HeadgateError
from headgate.core.job import CommandRun, HttpRun, PythonRun
from headgate.ports import Clock
from headgate.worker.assignment import Assignment
from headgate.worker.calls import run_http
from headgate.worker.commands import Commands
from headgate.worker.context import JobContext
from headgate.worker.handlers import Handlers, call
from headgate.worker.limits import Limiter, own_cgroup
from headgate.worker.nursery import Nursery
from headgate.worker.output import Output

Isolation = Literal["thread", "process"]


class NotForWorkers(HeadgateError):
    """An external job is done by whoever submitted it."""


class Executors:
    """Runs assignments: Python in this thread or in a warm process, commands in fresh ones, HTTP from here."""

    def __init__(self, handlers: Handlers, clock: Clock, *, isolation: Isolation = "thread", source: str = "") -> None:
        self._handlers = handlers
        self._isolation = isolation
        self._nursery = Nursery(source if isolation == "process" else "", clock)
        self._commands = Commands(self._nursery, Limiter(own_cgroup()), clock)

    def run(self, work: Assignment, context: JobContext, output: Output) -> bytes:
        """Do the work."""
        run = work.run
        if isinstance(run, PythonRun):
            if self._isolation == "process":
                return self._nursery.run(work, context, output)
            return call(self._handlers, work, context)
        if isinstance(run, CommandRun):
            return self._commands.run(work, run, context, output)
        if isinstance(run, HttpRun):
            return run_http(work, run, context)
        raise NotForWorkers

    def close(self) -> None:
        """End the processes that are kept warm."""
        self._nursery.close()
