"""Errors as problem documents (RFC 9457): every typed error has one status, and its code is its name for programs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from headgate.core import errors as e
from headgate.engine.errors import EngineStopped, EngineUnreachable
from headgate.ports import StoreError
from headgate.wire.http import Problem

MEDIA = b"application/problem+json"
RETRY_STORE = 2_000
"""Milliseconds to wait before trying a store again that cannot commit."""


class Unauthorized(e.HeadgateError):
    """A valid bearer token is needed."""


class Forbidden(e.HeadgateError):
    """The token does not allow this."""


class ForeignHost(Forbidden):
    """This server does not answer to that Host."""


class ForeignOrigin(Forbidden):
    """Pages of that origin may not call this server."""


class NoRoute(e.NotFound):
    """There is no such call."""


class MethodNotAllowed(e.HeadgateError):
    """The call exists, but not with this method."""


class BodyTooLarge(e.HeadgateError):
    """The body is larger than allowed."""


class UnsupportedEncoding(e.HeadgateError):
    """Bodies are taken as they are, never compressed."""


class RequestTimeout(e.HeadgateError):
    """The request took too long to arrive."""


class Overloaded(e.Refused):
    """Too much is going on; try again soon."""


class Unavailable(e.HeadgateError):
    """This part is not running."""


class ClientGone(e.HeadgateError):
    """The client went away before it got its answer."""


STATUS: dict[type[Exception], int] = {
    e.InvalidInput: 400,
    Unauthorized: 401,
    Forbidden: 403,
    e.NotFound: 404,
    MethodNotAllowed: 405,
    RequestTimeout: 408,
    e.Conflict: 409,
    BodyTooLarge: 413,
    UnsupportedEncoding: 415,
    e.Refused: 429,
    Overloaded: 503,
    Unavailable: 503,
    EngineStopped: 503,
    EngineUnreachable: 503,
    StoreError: 503,
    ClientGone: 499,
}
_FULL = ("disk is full", "no space left", "disk full")


def status_of(error: Exception) -> int:
    """The status of an error: that of the nearest kind in the table."""
    if isinstance(error, StoreError | EngineStopped) and any(word in str(error).lower() for word in _FULL):
        return 507
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def problem_of(error: Exception) -> Problem:
    """An error as a problem document. What is not ours is a bug: it is named, not described."""
    status = status_of(error)
    if not isinstance(error, e.HeadgateError):
        return _problem(500, "internal_error", "Something went wrong in the server; its log says more.", {})
    details = dict(error.details)
    return _problem(status, error.code, str(error), details)


def _problem(status: int, code: str, detail: str, details: dict[str, Any]) -> Problem:
    field = str(details.pop("field", ""))
    retry_after = details.pop("retry_after", None)
    if retry_after is None and status in (503, 507):
        retry_after = RETRY_STORE
    title = HTTPStatus(status).phrase if status != 499 else "Client Closed Request"
    kind = f"urn:headgate:problem:{code}"
    return Problem(kind, title, status, code, detail, field, retry_after, _plain(details))


def _plain(details: dict[str, Any]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in details.items() if value is not None}
