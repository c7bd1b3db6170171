"""Jobs that are HTTP calls."""

from __future__ import annotations

import contextlib
import http.client
import socket
from typing import Any
from urllib.parse import urlsplit

import msgspec

from headgate.core.errors import HeadgateError
from headgate.core.job import HttpRun
from headgate.worker.assignment import Assignment
from headgate.worker.context import JobContext
from headgate.worker.handlers import encode_result

_LARGEST = 1 << 19
_PATIENCE = 300.0


class CallFailed(HeadgateError):
    """The call did not succeed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure_code = code


def run_http(work: Assignment, run: HttpRun, context: JobContext) -> bytes:
    """Make the call; the result is `{status, body}` as JSON. A status from 400 on is a failure."""
    connection = _connect(run.url, _PATIENCE if work.timeout is None else work.timeout / 1000)
    context.on_stop(lambda: _cut(connection))
    try:
        connection.request(run.method, _target(run.url), _body(work, run), _headers(work, run))
        reply = connection.getresponse()
        data = reply.read(_LARGEST + 1)
    except (OSError, http.client.HTTPException) as error:
        context.check()
        raise CallFailed("unreachable", f"{run.url}: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
    if len(data) > _LARGEST:
        raise CallFailed("reply_too_large", f"{run.url} answered with more than {_LARGEST} bytes")
    if reply.status >= 400:
        raise CallFailed("http_status", f"{run.url} answered {reply.status} {reply.reason}")
    return encode_result({"status": reply.status, "body": _read(data)})


def _connect(url: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _body(work: Assignment, run: HttpRun) -> bytes | None:
    if run.body is not None:
        return run.body.encode()
    return None if work.payload == b"null" or run.method in ("GET", "HEAD") else work.payload


def _headers(work: Assignment, run: HttpRun) -> dict[str, str]:
    own = {"content-type": "application/json", "headgate-job-id": work.job_id, "idempotency-key": work.job_id}
    return own | {name.lower(): value for name, value in run.headers}


def _read(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else None
    except ValueError:
        return data.decode("utf-8", "replace")


def _cut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
