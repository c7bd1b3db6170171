"""Structured logs: one JSON object a line (or text for a person), our own and the libraries' below us; never a secret.

Until `configure_logs` is called, warnings and worse go where the standard library puts them, and nothing else does.
"""

from __future__ import annotations

import logging
import re
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRET = re.compile(r"hg_[0-9a-f]{6,}_[A-Za-z0-9_-]{8,}")
_HIDDEN = "hg_[hidden]"
_FIELDS = frozenset({"token", "authorization", "cookie", "secret", "password"})


def hide_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Whatever looks like a token is not written down, wherever it stands."""
    return {name: _HIDDEN if name.lower() in _FIELDS else _clean(value) for name, value in event.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET.sub(_HIDDEN, value)
    if isinstance(value, dict):
        return {name: _HIDDEN if str(name).lower() in _FIELDS else _clean(part) for name, part in value.items()}
    return [_clean(part) for part in value] if isinstance(value, list | tuple) else value


_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    hide_secrets,
]
_FIRST, _LAST = structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter


def get_logger(name: str) -> Any:
    """A logger of events with fields, by way of the standard library's."""
    processors = [_FIRST, *_SHARED, _LAST]
    return structlog.wrap_logger(logging.getLogger(name), processors, structlog.stdlib.BoundLogger)


def configure_logs(stream: TextIO, level: str = "info", *, text: bool = False) -> None:
    """Write the logs of this process to a stream, our own and those of the libraries alike."""
    written = structlog.dev.ConsoleRenderer(colors=stream.isatty()) if text else structlog.processors.JSONRenderer()
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, written]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
