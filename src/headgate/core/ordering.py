"""The built-in ordering: class, fair share, rank, submission; first worker that fits.

It stands behind the same interface as any policy: it reads the state and proposes, the core disposes.
"""

from __future__ import annotations

from typing import Protocol

from headgate.core.actions import Action, Dispatch, Preempt
from headgate.core.check import no_units, over_quota, pool_closed, unfit
from headgate.core.cluster import Worker
from headgate.core.preemption import find_victims
from headgate.core.ready import Bucket, Shape
from headgate.core.state import Job, State


class Policy(Protocol):
    """What proposes: given the state and the time, the next actions; none means wait."""

    def propose(self, state: State, now: int) -> list[Action]:
        """Return the next actions; they are checked one by one before the policy is asked again."""
        ...


class FirstFit:
    """The native ordering. It proposes one action at a time, so each sees the effect of the last."""

    def propose(self, state: State, now: int) -> list[Action]:
        """The first job in order that fits, on the first worker that it fits."""
        if not state.ready.size:
            return []
        for bucket, job in state.ready.candidates(state.room):
            action = _place(state, bucket, job, now)
            if action is not None:
                return [action]
        return []


def _place(state: State, bucket: Bucket, job: Job, now: int) -> Action | None:
    shape = bucket.shape
    if no_units(state, shape.units, now) is None and over_quota(state.tenants[bucket.tenant], shape) is None:
        if shape.external:
            return Dispatch(job.id)
        worker, waiting_helps = first_fit(state, shape, now)
        if worker is not None:
            return Dispatch(job.id, worker.id)
        if waiting_helps:
            return None
    victims = find_victims(state, job, now)
    if victims:
        return Preempt(job.id, victims, "room for a job of a higher class")
    if not state.load.stale(now, state.settings):
        bucket.blocked_at = state.room
    return None


def first_fit(state: State, shape: Shape, now: int) -> tuple[Worker | None, bool]:
    """The first open worker that fits, and whether time alone could change the answer."""
    waiting_helps = False
    for worker in state.open_workers.values():
        if not _serves(shape, worker) or unfit(shape, worker) is not None:
            continue
        if pool_closed(state, shape, worker.spec.pool, now) is None:
            return worker, False
        waiting_helps = True
    return None, waiting_helps


def _serves(shape: Shape, worker: Worker) -> bool:
    """A worker that has a model loaded is left to jobs for that model."""
    return worker.spec.model_ref is None or worker.spec.model_ref == shape.model_ref
