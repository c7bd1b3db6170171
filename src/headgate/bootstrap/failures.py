"""Which failures are expected, what to say of them, and which exit code they end a command with."""

from __future__ import annotations

from headgate.config import ConfigError
from headgate.core import errors
from headgate.ports import StoreDamaged, StoreError, StoreOwned, StoreTooNew

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ConfigError, 78),
    (StoreDamaged, 65),
    (StoreTooNew, 65),
    (StoreOwned, 69),
    (StoreError, 69),
    (errors.InvalidInput, 65),
    (errors.NotFound, 66),
    (errors.Conflict, 1),
    (errors.Refused, 75),
    (PermissionError, 73),
    (FileNotFoundError, 66),
    (OSError, 73),
)


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
