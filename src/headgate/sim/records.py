"""What a simulation tells as it goes: one record for every job that ended, and counts of everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec


class JobRecord(NamedTuple):
    """A job that ended. Times are in units of the workload."""

    id: str
    tenant: str
    job_class: int
    submitted: int
    started: int | None
    """The first start."""
    ended: int
    state: str
    units: int
    run: int
    """How long it ran in the end, over all attempts."""
    estimate: int | None
    attempts: int
    preemptions: int
    worker: str
    deadline: int | None


class Sample(NamedTuple):
    """One look at the cluster."""

    at: int
    queued: int
    running: int
    leased_units: int
    usable_units: int


class Counts(msgspec.Struct):
    """What happened, besides jobs that ended."""

    submitted: int = 0
    refused_submissions: int = 0
    events: int = 0
    cycles: int = 0
    grants: int = 0
    refusals: int = 0
    refusals_by_code: dict[str, int] = {}
    preemptions: int = 0
    evictions: int = 0
    model_loads: int = 0
    worker_failures: int = 0
    failed_attempts: int = 0
    policy_failures: dict[str, int] = {}
    first_failure: str = ""
    """What the policy said, or what was wrong with its answer, when it failed for the first time."""
    stuck: int = 0
    """Jobs that were still waiting when nothing could happen any more."""


class Grant(NamedTuple):
    """A decision that held: who got what, when, and the policy's reason."""

    at: int
    job_id: str
    worker_id: str
    reason: str
    decision: int = 0
    """Which of the policy's decisions it was, from 1 on."""


OnJob = Callable[[JobRecord], object]
OnSample = Callable[[Sample], object]
OnGrant = Callable[[Grant], object]


def nobody(*_: object) -> None:
    """For those who do not listen."""
