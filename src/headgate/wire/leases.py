"""Leases on the wire, and what their holders say."""

from __future__ import annotations

import msgspec

from headgate.wire.base import Body, Out, null
from headgate.wire.jobs import ErrorOut, JobOut


class LeaseOut(Out, frozen=True):
    """A live lease. Every word on it carries the `token`."""

    lease_id: str
    job_id: str
    token: int
    worker_id: str | None
    capacity_units: int
    attempt: int
    granted_at: float
    expires_at: float
    last_heartbeat: float
    ttl: float
    resources: dict[str, float] = {}
    started_at: float | None = None
    let_go_by: float | None = None


class ClaimIn(Body, frozen=True):
    """A worker asks for a lease, or the submitter of an external job for its own; waits up to `wait_s`."""

    worker_id: str
    job_id: str | None = None
    max_units: int | None = None
    wait_s: float = 0.0


class Denied(Out, frozen=True):
    """Why there is no lease now."""

    code: str
    detail: str
    retry_after_ms: int


class ClaimOut(Out, frozen=True):
    """A lease with its job, or why there is none."""

    lease: LeaseOut | None = None
    job: JobOut | None = None
    denied: Denied | None = None


class TokenIn(Body, frozen=True):
    """A word on a lease that needs nothing but its token: start, heartbeat, release."""

    token: int


class ProgressIn(Body, frozen=True):
    """How far a job is, 0..1, and a note."""

    token: int
    fraction: float | None = None
    note: str = ""
    log: str = ""
    """What was printed since the last word."""


class CompleteIn(Body, frozen=True):
    """The work is done; `log` is what it printed, as far as it was kept."""

    token: int
    result: msgspec.Raw = msgspec.field(default_factory=null)
    log: str = ""


class FailIn(Body, frozen=True):
    """The work failed; `retry: false` forbids another attempt."""

    token: int
    error: ErrorOut
    retry: bool = True
    log: str = ""


class SettledOut(Out, frozen=True):
    """The word that ended a lease is durable."""

    lease_id: str
    settled: str


class BeatOut(Out, frozen=True):
    """Until when a lease holds, and whether its holder should let go before then."""

    lease_id: str
    expires_at: float
    let_go_by: float | None = None
    stale: bool = False


class LeasesOut(Out, frozen=True):
    """Live leases."""

    leases: list[LeaseOut]
