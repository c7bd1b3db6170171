"""What the engine can say when it cannot serve."""

from __future__ import annotations

from headgate.core.errors import HeadgateError


class EngineStopped(HeadgateError):
    """The engine has stopped and takes no commands."""


class EngineUnreachable(HeadgateError):
    """The process that owns the database cannot be reached."""
