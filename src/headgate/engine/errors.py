"""What the engine can say when it cannot serve."""

from __future__ import annotations

from headgate.core.errors import HeadgateError


class EngineStopped(HeadgateError):
    """The engine has stopped and takes no commands."""


class SettingsIgnored(UserWarning):
    """Another process owns the database and runs it by its own settings, which differ from those given here."""


class EngineUnreachable(HeadgateError):
    """The process that owns the database cannot be reached."""


class EngineSilent(EngineUnreachable):
    """The process that owns the database is there and does not answer: whether it will do as asked is unknown."""
