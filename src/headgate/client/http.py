"""Requests to a server: JSON over kept connections, tried again where that is safe, errors rebuilt with their type."""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from headgate.client.addresses import server_address
from headgate.client.errors import ConnectionFailed, RequestRefused, from_problem
from headgate.core.errors import HeadgateError, InvalidInput
from headgate.ports import Chance
from headgate.wire.http import Problem

T = TypeVar("T")
_log = logging.getLogger(__name__)
_problem = msgspec.json.Decoder(Problem)
_encode = msgspec.json.Encoder().encode
CALL = 30.0
"""Seconds for one request, beside what it was asked to wait."""
PATIENCE = 10.0
"""Seconds for which an unreachable server is tried again."""
_BUSY = (502, 503, 504)
_LATIN = 0xFF
"""The last letter that a header can carry."""


class Http:
    """A server's calls. Safe from several threads: each takes a connection of its own from the shelf."""

    def __init__(self, url: str, token: str | None, chance: Chance, *, patience: float = PATIENCE) -> None:
        parts = server_address(url)
        self.url = url.rstrip("/")
        self.token = _checked(token)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._base = parts.path.rstrip("/")
        self._chance = chance
        self._patience = patience
        self._lock = threading.Lock()
        self._shelf: list[http.client.HTTPConnection] = []
        self._closed = threading.Event()

    def get(self, path: str, kind: type[T], *, wait: float = 0.0, **query: Any) -> T:
        """Ask for something."""
        return self.call("GET", path + _query(query), kind, wait=wait)

    def post(
        self, path: str, body: Any, kind: type[T], *, wait: float = 0.0, headers: Mapping[str, str] | None = None
    ) -> T:
        """Have something done. Everything that is posted here may be posted twice: fenced, keyed or idempotent."""
        return self.call("POST", path, kind, body=body, wait=wait, headers=headers)

    def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: Any = None,
        wait: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """One call; a server that is away or overloaded is tried again for a while."""
        data = None if body is None else _encode(body)
        _check_headers(headers or {})
        left, pause = self._patience, 0.05
        while True:
            try:
                return self._once(method, path, kind, data, wait, headers)
            except ConnectionFailed as error:
                if left <= 0 or self._closed.is_set():
                    raise
                _log.info("trying again in %.2f s: %s", pause, error)
            spread = pause * (0.5 + self._chance.uniform())
            self._closed.wait(spread)
            left -= spread
            pause = min(2.0, pause * 2)

    def close(self) -> None:
        """Close the kept connections and try nothing again."""
        self._closed.set()
        with self._lock:
            shelf, self._shelf = self._shelf, []
        for connection in shelf:
            connection.close()

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        own = {"content-type": "application/json", "accept": "application/json"}
        return own | ({"authorization": f"Bearer {self.token}"} if self.token else {})

    def _once(
        self, method: str, path: str, kind: type[T], data: bytes | None, wait: float, headers: Mapping[str, str] | None
    ) -> T:
        connection, fresh = self._take()
        try:
            connection.timeout = CALL + wait
            if connection.sock is not None:
                connection.sock.settimeout(CALL + wait)
            connection.request(method, self._base + path, data, {**self.headers(), **(headers or {})})
            reply = connection.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # a host name may be no name at all
            connection.close()
            if not fresh and isinstance(error, http.client.RemoteDisconnected | BrokenPipeError | ConnectionResetError):
                return self._once(method, path, kind, data, wait, headers)  # it had been closed while on the shelf
            raise ConnectionFailed(f"{self.url} cannot be reached: {str(error) or type(error).__name__}") from error
        self._put_back(connection, reply)
        if reply.status >= 400:
            raise _refused(reply.status, content)
        try:
            return msgspec.json.decode(content or b"null", type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RequestRefused(f"{self.url} answers, but not as a Headgate server does: {error}") from error

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._shelf:
                return self._shelf.pop(), False
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=CALL, context=context), True
        return _OneWrite(self._host, self._port, timeout=CALL), True

    def _put_back(self, connection: http.client.HTTPConnection, reply: http.client.HTTPResponse) -> None:
        if reply.will_close or self._closed.is_set():
            connection.close()
            return
        with self._lock:
            self._shelf.append(connection)


class _OneWrite(http.client.HTTPConnection):
    """Sends a request in one piece: a server that gets the head alone has to wait for the rest."""

    _parts: list[bytes] | None = None

    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, *args: Any, **kwargs: Any) -> None:
        """Gather what the request is made of, then send it."""
        parts: list[bytes] = []
        self._parts = parts
        try:
            super().request(*args, **kwargs)
        finally:
            self._parts = None
        super().send(b"".join(parts))

    def send(self, data: Any) -> None:
        """Called for each part of a request."""
        if self._parts is None:
            super().send(data)
        else:
            self._parts.append(data)


def _checked(token: str | None) -> str | None:
    """A token as a header can carry it; it is not shown where it is wrong."""
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
        raise InvalidInput("must be printable ASCII without blanks", field="token")
    return token


def _check_headers(headers: Mapping[str, str]) -> None:
    """What a header cannot carry would look as if the server were away."""
    for name, value in headers.items():
        if not value.isprintable() or any(ord(letter) > _LATIN for letter in value):
            raise InvalidInput("must be printable characters of Latin-1", field=name)


def _refused(status: int, content: bytes) -> HeadgateError:
    try:
        problem = _problem.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = content[:200].decode("utf-8", "replace")
        if status in _BUSY:
            return ConnectionFailed(f"the server answered {status}: {text}")
        return RequestRefused(f"the server answered {status}: {text}", status=status)
    if status in _BUSY:
        return ConnectionFailed(f"the server cannot serve now: {problem.detail or problem.title}", status=status)
    return from_problem(problem)


def _query(query: Mapping[str, Any]) -> str:
    parts = [f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value is not None]
    return "?" + "&".join(parts) if parts else ""


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
