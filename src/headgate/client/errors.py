"""What the SDK raises beyond the errors of the core, and how errors come back from a problem document.

HeadgateError
+- ConnectionFailed        the server or the owner of the database cannot be reached
+- RequestRefused          the server says no in a way that this client does not know (`code`, `status`)
+- NothingCanRun           no worker anywhere can run the job
+- ResultTimeout           the job has not ended in time (a TimeoutError too)
+- WorkersFailed           every worker process of `run_workers` ends as soon as it is started
+- LeaseLost               the lease is over while the work still goes on
+- NotCompleted            the job has ended otherwise than completed
   +- JobFailed, JobExpired, JobCancelled
"""

from __future__ import annotations

from typing import Any

from headgate.core.errors import HeadgateError, InvalidInput
from headgate.wire.http import ErrorOut, JobOut, Problem


class ConnectionFailed(HeadgateError):
    """Headgate cannot be reached."""


class RequestRefused(HeadgateError):
    """The server refused the request."""


class NothingCanRun(HeadgateError):
    """There is no worker that could run the job."""


class ResultTimeout(HeadgateError, TimeoutError):
    """The job has not ended in time."""


class WorkersFailed(HeadgateError):
    """The worker processes end as soon as they are started; they are given up."""


class LeaseLost(HeadgateError):
    """The lease is over: stop the work."""


class NotCompleted(HeadgateError):
    """The job did not complete."""

    def __init__(self, job: JobOut) -> None:
        error = job.error or ErrorOut(job.state)
        text = f"job {job.id} ({job.name}) is {job.state}"
        if error.message:
            text += f": {error.code}: {error.message}"
        super().__init__(text, job_id=job.id, state=job.state)
        self.job = job
        self.error = error
        """What the last attempt died of: `code`, `message`, `traceback`."""


class JobFailed(NotCompleted):
    """The job failed."""


class JobExpired(NotCompleted):
    """The job's lease ran out, and there was no further attempt."""


class JobCancelled(NotCompleted):
    """The job was cancelled."""


def not_completed(job: JobOut) -> NotCompleted:
    """The error for a job that has ended without completing."""
    kinds = {"failed": JobFailed, "expired": JobExpired, "cancelled": JobCancelled}
    return kinds.get(job.state, NotCompleted)(job)


def _tree(root: type[HeadgateError]) -> dict[str, type[HeadgateError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


def rebuild(code: str, message: str, **details: Any) -> HeadgateError:
    """The same error on this side of the wire, by its code."""
    kind = _tree(HeadgateError).get(code)
    if kind is None or issubclass(kind, NotCompleted):
        kind, details = RequestRefused, {**details, "code_given": code}
    error = kind.__new__(kind)
    HeadgateError.__init__(error, message, **details)
    return error


def from_problem(problem: Problem) -> HeadgateError:
    """The error that a problem document stands for."""
    details: dict[str, Any] = {"status": problem.status, **problem.extra}
    if problem.retry_after_ms is not None:
        details["retry_after_ms"] = problem.retry_after_ms
    error = rebuild(problem.code, problem.detail or problem.title, **details)
    if problem.field or isinstance(error, InvalidInput):
        error.details["field"] = problem.field
    return error
