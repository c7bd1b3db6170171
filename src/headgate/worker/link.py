"""The link: how a worker reaches the engine, in this process, through the local socket, or over the network."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from headgate.core.errors import HeadgateError
from headgate.wire.http import BeatOut, ErrorOut, WorkerIn
from headgate.wire.stream import Word
from headgate.worker.assignment import Assignment


class LinkDown(HeadgateError):
    """The engine cannot be reached now; it may be tried again."""


class Turn(msgspec.Struct, frozen=True):
    """What became of the words, and what is new."""

    refused: tuple[tuple[int, ErrorOut], ...] = ()
    """Words that were not carried out, by their place."""
    grants: tuple[Assignment, ...] = ()
    gone: tuple[str, ...] = ()
    """Leases that are over: their work must stop."""
    let_go: tuple[tuple[str, int], ...] = ()
    """Leases to be given back, with the milliseconds that are left for it."""
    draining: bool = False
    leave: str = ""
    """Why the worker has to stop everything and leave; empty: it may stay."""


class Link(Protocol):
    """Blocking calls, from several threads at once. `LinkDown` means: try again."""

    def register(self, spec: WorkerIn) -> None:
        """Join, or say anew what this worker is."""
        ...

    def turn(
        self,
        words: Sequence[tuple[str, Word]],
        held: Collection[str],
        told: Collection[str],
        *,
        wants: bool,
        within: float,
    ) -> Turn:
        """Say words, each with the id of its job; durable when it returns. Wait up to `within` seconds for news."""
        ...

    def beat(self, leases: Sequence[tuple[str, int]]) -> list[BeatOut]:
        """Renew leases; with none it is a sign of life of the worker itself."""
        ...

    def drain(self) -> None:
        """Take no further work. Whoever waits in `turn` comes back."""
        ...

    def leave(self) -> None:
        """The worker is gone for good."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
