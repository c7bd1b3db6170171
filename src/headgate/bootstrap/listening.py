"""The socket to listen on, bound before anything else starts: a port that is taken is said at once."""

from __future__ import annotations

import errno
import socket

from headgate.core.errors import HeadgateError


class CannotListen(HeadgateError):
    """The address cannot be listened on."""


def bind(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 picks a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise CannotListen(f"{host!r} is not an address of this machine: {error.strerror}") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise CannotListen(_why(error, host, port)) from error
    bound.set_inheritable(False)
    return bound


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken; --port 0 picks a free one"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this user has; take one above 1023"
    return f"{host}:{port}: {error.strerror}"


def url_of(bound: socket.socket, host: str) -> str:
    """The address for people and programs on this machine."""
    port = bound.getsockname()[1]
    shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host  # noqa: S104
    return f"http://{shown}:{port}"
