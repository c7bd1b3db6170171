"""The first questions to every request: is it meant for us, does it come from a page of ours, and who asks?"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.errors import HeadgateError, InvalidInput
from headgate.server.problems import ForeignHost, ForeignOrigin, Unauthorized
from headgate.server.settings import ServerSettings, is_loopback

Headers = Mapping[bytes, bytes]
COOKIE = "headgate_token"
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_SUBPROTOCOL = "bearer."
_ONCE: dict[bytes, type[HeadgateError]] = {
    b"host": ForeignHost,
    b"origin": ForeignOrigin,
    b"authorization": Unauthorized,
    b"cookie": Unauthorized,
    b"idempotency-key": InvalidInput,
    b"content-encoding": InvalidInput,
}
"""Headers that may stand in a request only once, and what it is if they do not."""


class Gate:
    """Knows the names this server answers to."""

    def __init__(self, settings: ServerSettings) -> None:
        self._further = frozenset(name.lower() for name in settings.hosts)
        self._origins = frozenset(origin.lower() for origin in settings.origins)
        self._own = settings.host.lower()
        self._hosts: dict[int, frozenset[str]] = {}

    def names(self, port: int) -> frozenset[str]:
        """Every value of the Host header that is ours, on a port."""
        known = self._hosts.get(port)
        if known is None:
            own = f"[{self._own}]" if ":" in self._own and not self._own.startswith("[") else self._own
            plain = {*_LOOPBACK, own} if is_loopback(self._own) or self._own in ("0.0.0.0", "::") else {own}  # noqa: S104
            known = frozenset({f"{name}:{port}" for name in plain} | (plain if port == 80 else set()) | self._further)
            self._hosts[port] = known
        return known

    def check(self, headers: Headers, raw: list[tuple[bytes, bytes]], port: int) -> None:
        """Refuse a foreign Host and a foreign Origin."""
        if len(headers) != len(raw):
            _check_once(raw)
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self.names(port):
            raise ForeignHost(f"this server does not answer to the host {host[:100]!r}")
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin.decode("latin-1").lower(), host)

    def _check_origin(self, origin: str, host: str) -> None:
        if origin not in (f"http://{host}", f"https://{host}") and origin not in self._origins:
            raise ForeignOrigin(f"pages of {origin[:100]!r} may not call this server")


def _check_once(raw: list[tuple[bytes, bytes]]) -> None:
    """Whoever stands before us may have looked at the first of two, and we would look at the last."""
    names = [name for name, _ in raw]
    for name, kind in _ONCE.items():
        if names.count(name) > 1:
            raise kind(f"the header {name.decode().title()} is given twice")


def presented(headers: Headers, method: str) -> str:
    """The token that a request carries; `Unauthorized` if there is none."""
    authorization = headers.get(b"authorization")
    if authorization is not None:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("the Authorization header must read 'Bearer TOKEN'")
        return token.strip()
    if method == "WS":
        token = _from_subprotocol(headers)
        if token:
            return token
    token = _from_cookie(headers) if _from_our_page(headers, method) else ""
    if token:
        return token
    raise Unauthorized


def _from_our_page(headers: Headers, method: str) -> bool:
    """Whether a cookie counts: browsers bring it along for every page of this machine, whatever its port."""
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return False
    return method in ("GET", "HEAD") or b"origin" in headers


def _from_subprotocol(headers: Headers) -> str:
    """Pages cannot set headers on a WebSocket; they can offer protocols."""
    offered = headers.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")
    for name in offered:
        if name.strip().startswith(_SUBPROTOCOL):
            return name.strip().removeprefix(_SUBPROTOCOL)
    return ""


def _from_cookie(headers: Headers) -> str:
    """By hand: the standard library can take very long over a cookie, and nobody is known yet."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.partition("=")
        if name.strip() == COOKIE:
            return value.strip()
    return ""
