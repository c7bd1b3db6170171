"""What a worker and the engine say to each other in one go: words on leases in, news of its leases out.

The words and the grants that they make room for share one commit, so a worker that finishes a job and gets the next
pays for one. Everything can be sent again: words are fenced, and news is the difference to what the worker holds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core import commands as c
from headgate.core.errors import HeadgateError, WorkerNotFound
from headgate.core.job import JobKind
from headgate.core.lease import Lease
from headgate.core.quantities import Resources
from headgate.core.state import State
from headgate.core.states import TERMINAL
from headgate.engine.questions import Question

LOG = "log"
"""The kind of record that holds the output of jobs; the key is the id of the job."""


def log_row(state: State, lease_id: str, token: int, text: str) -> tuple[str, bytes] | None:
    """The key and body of a piece of output; none if whoever says it no longer holds the lease."""
    lease = state.leases.get(lease_id)
    return None if lease is None or lease.token != token else (lease.job_id, text.encode("utf-8", "replace"))


LeaseWord = c.Start | c.Heartbeats | c.Progress | c.Complete | c.Fail | c.Release | c.WorkerBeat


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """Why one of the words was not carried out."""

    word: int
    code: str
    message: str


class Grant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease that the worker does not know of, with what is its job's own: they come by the hundred."""

    lease_id: str
    token: int
    job_id: str
    kind: int
    """The place of the job's kind among those that come with the grants."""
    attempt: int
    ttl: int
    expires_at: int
    begun: bool
    resources: Resources
    payload: bytes
    name: str
    attributes: bytes
    seed: int | None


class Worked(msgspec.Struct, frozen=True, array_like=True):
    """What became of the words, and what is new."""

    now: int
    refused: tuple[Refusal, ...] = ()
    grants: list[Grant] = []
    kinds: list[JobKind] = []
    """What the granted jobs are, each kind once."""
    gone: tuple[str, ...] = ()
    """Leases that are over: their work must stop."""
    let_go: tuple[tuple[str, int], ...] = ()
    """Leases to be given back by a time, to make room."""
    draining: bool = False

    @property
    def news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.refused or self.grants or self.gone or self.let_go or self.draining)


class Work(Question[Worked], frozen=True, tag=True):
    """A worker speaks, and waits for news if there is none."""

    worker_id: str
    words: tuple[LeaseWord, ...] = ()
    held: tuple[str, ...] = ()
    """The leases it knows of, after its words."""
    told: tuple[str, ...] = ()
    """Those of them that it knows it must let go of."""
    logs: tuple[tuple[str, int, str], ...] = ()
    """Output of its jobs: lease, token and text."""
    wants: bool = True
    """Whether grants are news; otherwise only the end of what it holds is."""
    within: float = 0.0


class WaitLease(Question[Lease | None], frozen=True, tag=True):
    """Wait until an external job has its lease; none if it has not in time, or has ended."""

    job_id: str
    within: float


def news(state: State, asked: Work, now: int) -> Worked:
    """How what the worker holds differs from what it knows of."""
    worker = state.workers.get(asked.worker_id)
    if worker is None:
        raise WorkerNotFound(f"there is no worker {asked.worker_id!r}", worker_id=asked.worker_id)
    known, told, mine = set(asked.held), set(asked.told), worker.leases
    kinds: dict[JobKind, int] = {}
    grants: list[Grant] = []
    if asked.wants and not mine.keys() <= known:
        grants = [_grant(state, lease_id, kinds) for lease_id in mine if lease_id not in known]
    gone = tuple(lease_id for lease_id in asked.held if lease_id not in mine)
    let_go = []
    for lease_id in asked.held:
        lease = state.leases.get(lease_id)
        if lease is not None and lease.fence_at is not None and lease_id not in told:
            let_go.append((lease_id, lease.fence_at))
    draining = asked.wants and worker.status == "draining"
    return Worked(now, (), grants, list(kinds), gone, tuple(let_go), draining)


def _grant(state: State, lease_id: str, kinds: dict[JobKind, int]) -> Grant:
    lease = state.leases[lease_id]
    job = state.jobs[lease.job_id]
    return Grant(
        lease_id,
        lease.token,
        lease.job_id,
        kinds.setdefault(job.kind.of, len(kinds)),
        lease.attempt,
        lease.ttl,
        lease.expires_at,
        lease.started_at is not None,
        lease.resources,
        job.payload,
        job.name,
        job.attributes,
        job.seed,
    )


def hello_of(state: State, asked: Work) -> c.Command[Any] | None:
    """What brings a worker that speaks back, if it hung up or was thought gone."""
    worker = state.workers.get(asked.worker_id)
    if worker is not None and worker.status == "offline":
        return c.WorkerBeat(worker.id)
    if worker is not None and worker.status == "ready" and worker.spec.pull:
        return c.RegisterWorker(msgspec.structs.replace(worker.spec, pull=False))
    return None


def refusal(word: int, error: Exception) -> Refusal:
    """An error on its way to the worker."""
    if isinstance(error, HeadgateError):
        return Refusal(word, error.code, str(error))
    return Refusal(word, "error", f"{type(error).__name__}: {error}")


def external_lease(state: State, job_id: str) -> Lease | bool:
    """The lease of a job; true if it has ended, false while it waits."""
    job = state.jobs.get(job_id)
    if job is None or job.state in TERMINAL:
        return True
    return job.lease or False
