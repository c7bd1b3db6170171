"""Which failures are expected, what to say of them, and which exit code they end a command with."""

from __future__ import annotations

from headgate.bootstrap.home import CannotWrite
from headgate.bootstrap.listening import CannotListen
from headgate.config import ConfigError
from headgate.core import errors
from headgate.core.quantities import duration
from headgate.engine.errors import EngineStopped, EngineUnreachable
from headgate.ports import StoreDamaged, StoreError, StoreOwned, StoreTooNew

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ConfigError, 78),
    (StoreDamaged, 65),
    (StoreTooNew, 65),
    (StoreOwned, 69),
    (CannotWrite, 73),
    (StoreError, 69),
    (CannotListen, 69),
    (EngineUnreachable, 69),
    (EngineStopped, 75),
    (errors.InvalidInput, 65),
    (errors.NotFound, 66),
    (errors.Conflict, 1),
    (errors.Refused, 75),
    (PermissionError, 73),
    (FileNotFoundError, 66),
    (OSError, 73),
)


def milliseconds(text: str, field: str) -> int:
    """A span such as 30d, as people write it."""
    return duration(text, field)


def failure_of(error: Exception) -> tuple[int, str] | None:
    """The exit code and the line for the user; none for what nobody expected."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, _line(error)
    return None


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
