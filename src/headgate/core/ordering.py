"""The built-in ordering: class, fair share, rank, submission; first worker that fits.

It stands behind the same interface as any policy: it reads the state and proposes, the core disposes.
"""

from __future__ import annotations

from typing import Protocol

from headgate.core.actions import Action, Dispatch, Preempt
from headgate.core.check import no_units, over_quota, pool_closed, unfit
from headgate.core.cluster import Worker
from headgate.core.preemption import find_victims
from headgate.core.quantities import Amount
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
        if not state.open_workers:
            state.ready.give_up_workers(state.room)
        settings = state.settings
        preempting = settings.preempting_classes if settings.preemption and state.preemptible else ()
        for bucket, job in state.ready.candidates(state.room, preempting):
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
        model = worker.spec.model_ref
        if model is not None and model != shape.model_ref:  # it is left to jobs for the model that it has loaded
            continue
        if _short(shape, worker.free) or unfit(shape, worker) is not None:
            continue
        if pool_closed(state, shape, worker.spec.pool, now) is None:
            return worker, False
        waiting_helps = True
    return None, waiting_helps


def _short(shape: Shape, free: dict[str, Amount]) -> bool:
    """Whether a named resource is short: a look before `unfit`, which would put the same into words."""
    for name, needed in shape.resources:  # noqa: SIM110 - a generator would cost twice as much
        if free.get(name, 0) < needed:
            return True
    return False
