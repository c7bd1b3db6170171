"""A warm process: runs Python handlers one job at a time, in its main thread, until the connection ends."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from types import FrameType

from headgate.worker.assignment import Assignment
from headgate.worker.context import JobContext, JobStopped
from headgate.worker.frames import Said, receive_assignment, send
from headgate.worker.handlers import Handlers, call, failure
from headgate.worker.sources import load_handlers


def serve(descriptor: int, source: str) -> int:
    """Run jobs; the exit status."""
    connection = socket.socket(fileno=descriptor)
    handlers = load_handlers(source)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        while (work := receive_assignment(connection)) is not None:
            send(connection, _run(work, handlers, connection))
    return 0


def _run(work: Assignment, handlers: Handlers, connection: socket.socket) -> Said:
    def report(fraction: float | None, note: str) -> None:
        send(connection, Said(fraction=fraction, note=note))

    context = JobContext(
        work.job_id, work.attempt, name=work.name, seed=work.seed, report=report, write=sys.stdout.write
    )

    def told(_: int, __: FrameType | None) -> None:
        """SIGTERM: the handler sees an exception where it stands, and has the grace to tidy up."""
        context.stop("it was told to stop")
        raise JobStopped(f"job {work.job_id} was told to stop", job_id=work.job_id)

    signal.signal(signal.SIGTERM, told)
    try:
        return Said(done=True, result=call(handlers, work, context))
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is reported
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        reported, again = failure(error)
        return Said(done=True, error=reported, retry=again)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
