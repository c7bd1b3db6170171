"""Messages of the worker stream (`WS /v2/workers/{id}/stream`) and of the live feed (`WS /v2/live`), as JSON text.

The worker says what it does and gets an answer to each message that carries a `ref`; the server pushes leases as they
are granted. Everything on the stream can also be done by the calls of the HTTP API.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.wire.http import NULL, BeatOut, ErrorOut, JobOut, LeaseOut, Problem


class Message(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """One message."""


# -- from the worker ----------------------------------------------------------------------------------------------


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """One word on one lease: `start`, `complete`, `fail`, `release` or `progress`."""

    lease_id: str
    token: int
    verb: str
    result: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)
    error: ErrorOut | None = None
    retry: bool = True
    fraction: float | None = None
    note: str = ""
    log: str = ""


class Words(Message, frozen=True, tag="words"):
    """Words on leases, in order; one commit for all of them."""

    ref: int
    words: list[Word]


class Beats(Message, frozen=True, tag="beats"):
    """Heartbeats of all leases held, as (lease_id, token); with none it is a sign of life of the worker itself."""

    ref: int
    leases: list[tuple[str, int]] = []


class Drain(Message, frozen=True, tag="drain"):
    """The worker takes no further work; it finishes what it has."""

    ref: int


WorkerMessage = Words | Beats | Drain

# -- to the worker ------------------------------------------------------------------------------------------------


class Granted(Message, frozen=True, tag="granted"):
    """Leases for this worker, each with its job. A lease that was delivered before may come again.

    `heard` is the highest `ref` of the worker that the server had read on this connection (0: none yet), `now` the
    server's time: whatever lay between, the lease holds for `expires_at - now` from when the worker sent that message.
    """

    leases: list[LeaseOut]
    jobs: list[JobOut]
    heard: int = 0
    now: float | None = None


class WordsDone(Message, frozen=True, tag="words-done"):
    """What became of each word: none if it is durable, else the problem."""

    ref: int
    problems: list[Problem | None]


class BeatsDone(Message, frozen=True, tag="beats-done"):
    """How each lease stands."""

    ref: int
    beats: list[BeatOut]


class Stop(Message, frozen=True, tag="stop"):
    """Stop the work on a lease: it is over (cancelled, expired, preempted) or will be (`let_go_by`)."""

    lease_id: str
    reason: str
    let_go_by: float | None = None


class Leave(Message, frozen=True, tag="leave"):
    """The worker was evicted: it stops its jobs at once, gives back their leases and leaves."""

    reason: str = ""


ServerMessage = Granted | WordsDone | BeatsDone | Stop | Leave

# -- the live feed ------------------------------------------------------------------------------------------------


class Snapshot(Message, frozen=True, tag="snapshot"):
    """Where things stand; deltas follow from `number` on."""

    number: int
    topics: dict[str, Any]


class Deltas(Message, frozen=True, tag="delta"):
    """What changed, by topic; numbers rise by one. A gap means: ask for a snapshot."""

    number: int
    topics: dict[str, Any]


class NotDone(Message, frozen=True, tag="not-done"):
    """What was asked on the feed cannot be done."""

    problem: Problem


LiveMessage = Snapshot | Deltas | NotDone


class Playback(Message, frozen=True, tag="playback", forbid_unknown_fields=True):
    """From whoever watches: pause, go on, step, jump or change the pace of a simulation; as in `PlaybackIn`."""

    run: str
    playing: bool | None = None
    speed: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    step: Annotated[int, Meta(ge=-1_000, le=1_000)] | None = None
    seek: Annotated[float, Meta(ge=0, le=1e15)] | None = None


WatcherMessage = Playback
