"""Headgate: a programmable, resource-aware job scheduler."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.app import App
    from headgate.app.default import default_app, lease, observe
    from headgate.client.errors import (
        ConnectionFailed,
        JobCancelled,
        JobExpired,
        JobFailed,
        LeaseLost,
        NotCompleted,
        NothingCanRun,
        ResultTimeout,
        WorkersFailed,
    )
    from headgate.client.handles import AsyncJobHandle, JobHandle
    from headgate.core.errors import HeadgateError, InvalidJob, JobNotFound, QueueFull, QuotaExceeded
    from headgate.core.retention import Retention
    from headgate.core.settings import Settings
    from headgate.worker.context import GiveUp, JobStopped, current_job

_HOMES = {
    "App": "app",
    "AsyncJobHandle": "client.handles",
    "ConnectionFailed": "client.errors",
    "GiveUp": "worker.context",
    "HeadgateError": "core.errors",
    "InvalidJob": "core.errors",
    "JobCancelled": "client.errors",
    "JobExpired": "client.errors",
    "JobFailed": "client.errors",
    "JobHandle": "client.handles",
    "JobNotFound": "core.errors",
    "JobStopped": "worker.context",
    "LeaseLost": "client.errors",
    "NotCompleted": "client.errors",
    "NothingCanRun": "client.errors",
    "QueueFull": "core.errors",
    "QuotaExceeded": "core.errors",
    "ResultTimeout": "client.errors",
    "Retention": "core.retention",
    "Settings": "core.settings",
    "WorkersFailed": "client.errors",
    "current_job": "worker.context",
    "default_app": "app.default",
    "lease": "app.default",
    "observe": "app.default",
}

__all__ = [
    "App",
    "AsyncJobHandle",
    "ConnectionFailed",
    "GiveUp",
    "HeadgateError",
    "InvalidJob",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobStopped",
    "LeaseLost",
    "NotCompleted",
    "NothingCanRun",
    "QueueFull",
    "QuotaExceeded",
    "ResultTimeout",
    "Retention",
    "Settings",
    "WorkersFailed",
    "current_job",
    "default_app",
    "lease",
    "observe",
]


def __getattr__(name: str) -> Any:
    """Names are imported when they are asked for, so that `import headgate` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    return getattr(import_module(f"headgate.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
