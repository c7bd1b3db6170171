"""The error tree. The docstring of each class is its default message.

HeadgateError
+- InvalidInput            the request itself is wrong (`field` names where)
|  +- InvalidJob
|  +- InvalidSettings
|  +- DependencyError
|     +- UnknownDependency, DependencyCycle, DependencyTooDeep
+- NotFound
|  +- JobNotFound, WorkerNotFound, PoolNotFound, TenantNotFound, ModelNotFound
+- Conflict                the request is fine, the state does not allow it
|  +- IllegalTransition
|  +- StaleLease           the fencing token is not the live one
|  +- OutcomeConflict      the lease was settled already, with another outcome
|  +- IdempotencyConflict, DuplicateJob
|  +- DocumentMoved        it is no longer what the change was based on
|  +- WorkerBusy
+- Refused                 not now; may be tried again
|  +- QueueFull, QuotaExceeded
+- InvariantBroken         a bug: `verify` found the state inconsistent
"""

from __future__ import annotations

from typing import Any, ClassVar


class HeadgateError(Exception):
    """Something went wrong in Headgate."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None, **details: Any) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.details = details

    def __init_subclass__(cls) -> None:
        cls.code = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(name)


class InvalidInput(HeadgateError):
    """The input is not valid."""

    def __init__(self, message: str | None = None, *, field: str = "", **details: Any) -> None:
        text = message or (type(self).__doc__ or "").strip()
        super().__init__(f"{field}: {text}" if field else text, field=field, **details)


class InvalidJob(InvalidInput):
    """The job is not valid."""


class InvalidSettings(InvalidInput):
    """The settings are not valid."""


class DependencyError(InvalidInput):
    """The dependencies cannot be satisfied."""


class UnknownDependency(DependencyError):
    """The job depends on a job that does not exist."""


class DependencyCycle(DependencyError):
    """The jobs depend on each other in a circle."""


class DependencyTooDeep(DependencyError):
    """The chain of dependencies is longer than allowed."""


class NotFound(HeadgateError):
    """There is no such thing."""


class JobNotFound(NotFound):
    """There is no such job."""


class WorkerNotFound(NotFound):
    """There is no such worker."""


class PoolNotFound(NotFound):
    """There is no such pool."""


class TenantNotFound(NotFound):
    """There is no such tenant."""


class ModelNotFound(NotFound):
    """There is no such model in the catalog."""


class Conflict(HeadgateError):
    """The state does not allow this."""


class IllegalTransition(Conflict):
    """The job is not in a state that allows this."""


class StaleLease(Conflict):
    """The lease is over or its token is not the live one: stop the work."""


class OutcomeConflict(Conflict):
    """The lease was settled already, with another outcome."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with another body."""


class DuplicateJob(Conflict):
    """A job with this id exists already."""


class DocumentMoved(Conflict):
    """The document is no longer what the change was based on."""


class WorkerBusy(Conflict):
    """The worker has work that forbids this."""


class Refused(HeadgateError):
    """Not now; try again later."""


class QueueFull(Refused):
    """The queue is full."""


class QuotaExceeded(Refused):
    """The tenant's quota does not allow more."""


class InvariantBroken(HeadgateError):
    """The state is inconsistent."""
