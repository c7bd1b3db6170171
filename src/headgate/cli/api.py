"""The calls of a command to the server: JSON in, JSON out, and a line for the user where it goes wrong."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from headgate.bootstrap.machine import chance
from headgate.cli import exits
from headgate.cli.exits import Failure
from headgate.client.errors import ConnectionFailed
from headgate.client.http import Http, segment
from headgate.core.errors import HeadgateError, InvalidInput

DIRECTORY = ".headgate"
URL_FILE, TOKEN_FILE = "url", "token"
DEFAULT_URL = "http://127.0.0.1:8420"
_CODES = {400: exits.BAD_INPUT, 401: exits.FORBIDDEN, 403: exits.FORBIDDEN, 404: exits.NOT_FOUND, 409: exits.FAILED}
_CODES |= {413: exits.BAD_INPUT, 422: exits.BAD_INPUT, 429: exits.TRY_AGAIN, 503: exits.TRY_AGAIN, 507: exits.TRY_AGAIN}
_CODES |= {405: exits.UNAVAILABLE, 501: exits.UNAVAILABLE}


class Refusal(Failure):
    """The server said no, with a problem document."""

    def __init__(self, error: HeadgateError) -> None:
        self.status = int(error.details.get("status", 500))
        super().__init__(_CODES.get(self.status, exits.BUG), str(error))
        self.name = error.code
        self.problem: dict[str, Any] = {"code": error.code, "detail": str(error), **error.details}


class Api:
    """One server, by the paths of its calls."""

    def __init__(self, url: str, token: str | None) -> None:
        try:
            self.http = Http(url, token, chance, patience=0)
        except InvalidInput as error:
            raise Failure(exits.USAGE, str(error)) from None
        self.url = self.http.url
        self.local = urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")

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
        sent = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        try:
            return self.http.call(method, path + _query(query or {}), Any, body=body, headers=sent)
        except HeadgateError as error:
            failure = failed_call(error, self.url)
            raise (failure or error) from error


def failed_call(error: BaseException, url: str) -> Failure | None:
    """What to tell the user of a call that failed; none if it is nothing that calls do."""
    if isinstance(error, HeadgateError) and "status" in error.details:
        return Refusal(error)
    if not isinstance(error, ConnectionFailed):
        return None
    cause = error.__cause__
    why = getattr(cause, "strerror", None) or str(cause or error)
    hint = "; start it with 'headgate up', or say --url" if url == DEFAULT_URL else ""
    return Failure(exits.UNAVAILABLE, f"nobody answers at {url} ({why}){hint}")


def connect_to(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Address and token that the options, the environment or the working directory name."""
    url = arguments.url or os.environ.get("HEADGATE_URL") or _kept(URL_FILE) or DEFAULT_URL
    if arguments.token == "":  # an unset variable of a script must not become the token of whoever runs it
        raise Failure(
            exits.USAGE, "--token: is empty; leave it out for the one that HEADGATE_TOKEN or .headgate/token has"
        )
    return url, arguments.token or os.environ.get("HEADGATE_TOKEN") or _kept(TOKEN_FILE)


def connect(arguments: argparse.Namespace) -> Api:
    """The server to ask."""
    return Api(*connect_to(arguments))


def part(text: str) -> str:
    """A name as part of a path."""
    return segment(text)


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
