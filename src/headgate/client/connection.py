"""A connection: what the SDK asks of an engine, wherever it lives. Calls block; hops make them awaitable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headgate.wire.http import BeatOut, EventOut, ExplainOut, JobOut, LeaseOut, StatusOut

JobInput = Mapping[str, Any]


class Connection(Protocol):
    """Every call may raise `ConnectionFailed`; it has tried again by then where that was safe."""

    def submit(self, jobs: Sequence[JobInput]) -> list[str]:
        """Take in jobs, all or none; their ids in the order given."""
        ...

    def job(self, job_id: str) -> JobOut:
        """A job as it stands."""
        ...

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time."""
        ...

    def cancel(self, job_id: str, reason: str) -> None:
        """End a job that has not ended."""
        ...

    def patch(self, job_id: str, changes: Mapping[str, Any]) -> None:
        """Change a job that has not started."""
        ...

    def events(self, job_id: str) -> list[EventOut]:
        """What happened to a job, oldest first."""
        ...

    def explain(self, job_id: str) -> ExplainOut:
        """Why a job does not run."""
        ...

    def logs(self, job_id: str) -> str:
        """What a job printed."""
        ...

    def status(self) -> StatusOut:
        """One look at everything."""
        ...

    def claim(self, job_id: str, within: float) -> LeaseOut | None:
        """The lease of an external job, waiting for it if need be; none if there is none in time."""
        ...

    def start(self, lease: LeaseOut) -> None:
        """The holder begins."""
        ...

    def beat(self, lease: LeaseOut) -> BeatOut:
        """The holder is alive."""
        ...

    def complete(self, lease: LeaseOut, result: bytes) -> None:
        """The work is done; `result` is JSON."""
        ...

    def fail(self, lease: LeaseOut, code: str, message: str) -> None:
        """The work failed and is not to be tried again."""
        ...

    def observe(self, latency_s: float | None, error: bool) -> None:
        """A request of the application has ended."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
