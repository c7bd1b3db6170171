"""Why an address cannot be listened on, in words that help."""

from __future__ import annotations

import errno

from headgate.core.errors import HeadgateError, InvalidSettings


class CannotListen(HeadgateError):
    """The address cannot be listened on."""


def cannot_listen(error: InvalidSettings, host: str, port: int) -> CannotListen:
    """What the server says about its socket, with the remedy."""
    cause = error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.EADDRINUSE:
        return CannotListen(f"port {port} on {host} is taken; --port 0 picks a free one")
    if number == errno.EACCES:
        return CannotListen(f"port {port} needs more rights than this user has; take one above 1023")
    return CannotListen(str(error).partition(": ")[2])
