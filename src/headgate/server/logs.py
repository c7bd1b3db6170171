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
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
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


def show_controls(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A line stays one line, and a terminal that shows it obeys nothing that stands in it."""
    return {name: _CONTROL.sub(_escaped, value) if isinstance(value, str) else value for name, value in event.items()}


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _keep_lines(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """The same, but a traceback keeps its lines."""
    trace = event.get("exception")
    shown = show_controls(logger, method, event)
    if isinstance(trace, str):
        shown["exception"] = "\n".join(_CONTROL.sub(_escaped, line) for line in trace.split("\n"))
    return shown


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
    plain: list[Any] = [structlog.processors.JSONRenderer()]
    shown: list[Any] = [_keep_lines, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *(shown if text else plain)]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
