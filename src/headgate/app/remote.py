"""A connection and links to a server."""

from __future__ import annotations

from headgate.app.opening import Home
from headgate.ports import Clock, Ids


def open_remote(url: str, token: str | None, clock: Clock, ids: Ids) -> Home:
    """Open a server by its address."""
    raise NotImplementedError
