"""What a worker is given: a lease with as much of its job as it takes to do the work."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from headgate.core.job import CommandRun, ExternalRun, HttpRun, PythonRun, Run
from headgate.wire.http import EMPTY, NULL, LeaseOut


class Assignment(msgspec.Struct, frozen=True):
    """One lease and its job. Durations are milliseconds; `payload` and `attributes` are encoded JSON."""

    lease_id: str
    token: int
    job_id: str
    attempt: int
    ttl: int
    type: str
    run: Run
    payload: bytes = b"null"
    name: str = ""
    timeout: int | None = None
    resources: tuple[tuple[str, int | float], ...] = ()
    attributes: bytes = b"{}"
    seed: int | None = None
    sure_until: int | None = None
    """Until when, by this machine's clock, the lease is known to hold; none: not known."""
    begun: bool = False
    """Whether an earlier life of this worker has begun the work already."""


class GivenJob(msgspec.Struct, frozen=True):
    """As much of a job on the wire (`JobOut`) as a worker needs. What to run stays encoded: many jobs run the same."""

    id: str
    type: str
    name: str = ""
    run: msgspec.Raw = EMPTY
    payload: msgspec.Raw = NULL
    resources: dict[str, float] = {}
    attributes: msgspec.Raw = EMPTY
    seed: int | None = None
    timeout: float | None = None


def from_wire(lease: LeaseOut, job: GivenJob, sure_until: int | None = None) -> Assignment:
    """An assignment from what travels."""
    return Assignment(
        lease.lease_id,
        lease.token,
        job.id,
        lease.attempt,
        round(lease.ttl * 1000),
        job.type,
        read_run(bytes(job.run)),
        bytes(job.payload),
        job.name,
        None if job.timeout is None else round(job.timeout * 1000),
        tuple(sorted(lease.resources.items() or job.resources.items())),
        bytes(job.attributes),
        job.seed,
        sure_until,
        lease.started_at is not None,
    )


@lru_cache(maxsize=1_024)
def read_run(encoded: bytes) -> Run:
    """What to run, from the object that describes it; nothing said means a Python handler."""
    given: dict[str, object] = msgspec.json.decode(encoded)
    if not given:
        return PythonRun()
    named = {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in given.items()}
    return msgspec.convert(named, type=PythonRun | CommandRun | HttpRun | ExternalRun)
