"""The built-in ordering: class, fair share, rank, submission; first worker that fits.

It stands behind the same interface as any policy: it reads the state and proposes, the core disposes.
"""

from __future__ import annotations

from typing import Protocol

from headgate.core.actions import Action, Dispatch, Preempt, Stagger
from headgate.core.check import no_units, over_quota, pool_closed, serves, unfit
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
        settings = state.settings
        preempting = settings.preempting_classes if settings.preemption and state.preemptible else ()
        held_back = settings.preemptible_classes if state.preempting else ()
        for bucket, job in state.ready.candidates(state.room, preempting):
            if bucket.job_class in held_back:  # it would take the room that is being made, only to be stopped for it
                continue
            action = _place(state, bucket, job, now)
            if action is not None:
                return [action]
        return []


def _place(state: State, bucket: Bucket, job: Job, now: int) -> Action | None:
    shape = bucket.shape
    fits_nowhere = no_units(state, shape.units, now) is not None
    if not fits_nowhere and over_quota(state.tenants[bucket.tenant], shape) is None:
        if shape.external:
            return Dispatch(job.id)
        worker, waiting_helps = first_fit(state, shape, now)
        if worker is not None:
            return Dispatch(job.id, worker.id)
        if waiting_helps:
            return None
        fits_nowhere = True
    victims = find_victims(state, job, now)
    if victims:
        return Preempt(job.id, victims, "room for a job of a higher class")
    if state.load.fresh(now, state.settings):
        bucket.blocked_at = state.room
        if fits_nowhere:
            state.ready.give_up(shape, state.room)
    return None


def first_fit(state: State, shape: Shape, now: int) -> tuple[Worker | None, bool]:
    """The first open worker that fits, and whether time alone could change the answer."""
    waiting_helps = False
    for worker in state.open_workers.values():
        if not serves(shape, worker) or unfit(shape, worker) is not None:
            continue
        closed = pool_closed(state, shape, worker.spec.pool, now)
        if closed is None:
            return worker, False
        waiting_helps = waiting_helps or isinstance(closed, Stagger)
    return None, waiting_helps
