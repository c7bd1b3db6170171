"""The calls of a command to the server: JSON in, JSON out, and a line for the user where it goes wrong."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from headgate.cli import exits
from headgate.cli.exits import Failure

DIRECTORY = ".headgate"
URL_FILE, TOKEN_FILE = "url", "token"
DEFAULT_URL = "http://127.0.0.1:8420"
_CODES = {400: exits.BAD_INPUT, 401: exits.FORBIDDEN, 403: exits.FORBIDDEN, 404: exits.NOT_FOUND, 409: exits.FAILED}
_CODES |= {413: exits.BAD_INPUT, 422: exits.BAD_INPUT, 429: exits.TRY_AGAIN, 503: exits.TRY_AGAIN, 507: exits.TRY_AGAIN}
_CODES |= {405: exits.UNAVAILABLE, 501: exits.UNAVAILABLE}


class Refusal(Failure):
    """The server said no, with a problem document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        detail = problem.get("detail") or problem.get("title") or f"status {status}"
        super().__init__(_CODES.get(status, exits.BUG), str(detail))
        self.status = status
        self.problem = problem


class Api:
    """One server."""

    def __init__(self, url: str, token: str | None, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failure(exits.USAGE, f"{url!r} is not an address such as {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self.local = parts.hostname in ("127.0.0.1", "::1", "localhost")
        self._base = parts.path.rstrip("/")
        self._token = token
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)

    def get(self, path: str, **query: Any) -> Any:
        """Read something."""
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """Do something."""
        return self.call("POST", path, body=body, headers=headers)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """One call; `Refusal` where the server says no."""
        target = self._base + path + _query(query or {})
        sent = {
            "Accept": "application/json",
            **{name.replace("_", "-"): value for name, value in (headers or {}).items()},
        }
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        encoded = None
        if body is not None:
            encoded = json.dumps(body, allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        status, text = self._exchange(method, target, encoded, sent)
        answer = _parsed(text)
        if status >= 400:
            raise Refusal(status, answer if isinstance(answer, dict) else {})
        return answer

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            self._connection.request(method, target, body, headers)
            reply = self._connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            hint = "" if self.url != DEFAULT_URL else "; start it with 'headgate up', or say --url"
            raise Failure(exits.UNAVAILABLE, f"nobody answers at {self.url} ({_why(error)}){hint}") from error


def connect_to(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Address and token that the options, the environment or the working directory name."""
    url = arguments.url or os.environ.get("HEADGATE_URL") or _kept(URL_FILE) or DEFAULT_URL
    return url, arguments.token or os.environ.get("HEADGATE_TOKEN") or _kept(TOKEN_FILE)


def connect(arguments: argparse.Namespace) -> Api:
    """The server to ask."""
    return Api(*connect_to(arguments))


def part(text: str) -> str:
    """A name as part of a path."""
    return quote(text, safe="")


def _kept(name: str) -> str | None:
    """What `headgate up` left in the working directory, if it is ours alone to read."""
    path = Path(DIRECTORY) / name
    try:
        found = path.stat()
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            print(f"headgate: {path} is not yours alone and is not used", file=sys.stderr)
            return None
        return path.read_text("utf-8").strip() or None
    except OSError:
        return None


def _query(query: dict[str, Any]) -> str:
    given = [(name, value) for name, value in query.items() if value not in (None, "", [], ())]
    return f"?{urlencode(given, doseq=True)}" if given else ""


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode("utf-8", "replace")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
