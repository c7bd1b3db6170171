"""The job from inside: what a handler can ask and say while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

from headgate.core.errors import HeadgateError, InvalidInput


class JobStopped(HeadgateError):
    """The job has been told to stop: its lease is over or must be given back."""


class NoJob(HeadgateError):
    """There is no job here: `current_job` is for handlers while they run."""


class GiveUp(HeadgateError):
    """Raised by a handler: the job has failed, and another attempt would not help."""


class JobContext:
    """The job that the calling handler works on."""

    __slots__ = (
        "_lock",
        "_on_stop",
        "_report",
        "_stop",
        "_stopped",
        "_write",
        "attempt",
        "grace",
        "id",
        "name",
        "seed",
        "stop_reason",
    )

    def __init__(
        self,
        job_id: str,
        attempt: int = 1,
        *,
        name: str = "",
        seed: int | None = None,
        report: Callable[[float | None, str], None] | None = None,
        write: Callable[[str], object] | None = None,
    ) -> None:
        self.id = job_id
        self.attempt = attempt
        self.name = name
        self.seed = seed
        self.stop_reason = ""
        self._report = report
        self._write = write
        self._stopped = False
        self._stop: threading.Event | None = None
        """Made for the first handler that waits: few do, and it costs more than all the rest."""
        self._lock = threading.Lock()
        self._on_stop: list[Callable[[], None]] = []
        self.grace = 5.0

    @property
    def stopped(self) -> bool:
        """Whether the job should stop."""
        return self._stopped

    def check(self) -> None:
        """Raise `JobStopped` if the job should stop; to be called from time to time by handlers in threads."""
        if self._stopped:
            raise JobStopped(f"job {self.id} was told to stop: {self.stop_reason}", job_id=self.id)

    def wait(self, seconds: float) -> None:
        """Wait, and raise `JobStopped` as soon as the job should stop."""
        with self._lock:
            if self._stop is None:
                self._stop = threading.Event()
            stop, stopped = self._stop, self._stopped
        if not stopped:
            stop.wait(seconds)
        self.check()

    def progress(self, fraction: float | None = None, note: str = "") -> None:
        """Say how far the job is, 0..1, and what it does."""
        if fraction is not None and not 0 <= fraction <= 1:
            raise InvalidInput("must be between 0 and 1", field="fraction")
        if self._report is not None:
            self._report(fraction, note)

    def log(self, text: str) -> None:
        """Add a line to the output of the job."""
        self.write(text if text.endswith("\n") else text + "\n")

    def write(self, text: str) -> None:
        """Add text to the output of the job as it stands."""
        if self._write is not None:
            self._write(text)

    def stop(self, reason: str, grace: float = 5.0) -> None:
        """Tell the job to stop; what runs in a process of its own is killed after so many seconds. The first stays."""
        with self._lock:
            if self._stopped:
                self.grace = min(grace, self.grace)
                return
            self.stop_reason = reason
            self.grace = grace
            self._stopped = True
            if self._stop is not None:
                self._stop.set()
            told = list(self._on_stop)
        for tell in told:
            tell()

    def on_stop(self, tell: Callable[[], None]) -> None:
        """Have something called when the job is told to stop; at once if it was already."""
        with self._lock:
            self._on_stop.append(tell)
            late = self._stopped
        if late:
            tell()


_current: ContextVar[JobContext | None] = ContextVar("headgate_job", default=None)


def current_job() -> JobContext:
    """The job that the caller works on; `NoJob` outside of one."""
    found = _current.get()
    if found is None:
        raise NoJob
    return found


class inside:  # noqa: N801 - reads like the function that it would be, at a third of the cost
    """Make it the current job."""

    __slots__ = ("_context", "_mark")

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._mark = _current.set(self._context)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._mark)
