"""The built-in ordering: class, fair share, rank, submission; first worker that fits.

It stands behind the same interface as any policy: it reads the state and proposes, the core disposes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from headgate.core.actions import Action, Dispatch, Preempt, Stagger
from headgate.core.bucket import Bucket, Shape
from headgate.core.check import never_fits, no_units, over_quota, pool_closed, serves
from headgate.core.cluster import Worker
from headgate.core.commands import Command, Scheduled
from headgate.core.events import Event
from headgate.core.preemption import find_victims
from headgate.core.quantities import Amount
from headgate.core.state import Job, State


class Policy(Protocol):
    """What proposes: given the state and the time, the next actions; none means wait."""

    def propose(self, state: State, now: int) -> list[Action]:
        """Return the next actions; they are checked one by one before the policy is asked again."""
        ...


class Note(NamedTuple):
    """What a policy wants kept of a decision: an entry for one of the engine's logs."""

    kind: str
    key: str
    body: bytes


@runtime_checkable
class Decider(Policy, Protocol):
    """A policy that keeps a picture of its own of the state, and a record of what it decided."""

    def observe(self, events: list[Event], state: State) -> None:
        """See events as they happen, before they are durable."""
        ...

    def disposed(self, scheduled: Scheduled, now: int) -> list[Note | Command[Any]]:
        """Hear what became of the last proposal; return what should be kept of it, and what should be done."""
        ...


@runtime_checkable
class AsyncDecider(Decider, Protocol):
    """A decider that can be asked without holding up whoever asks."""

    async def apropose(self, state: State, now: int) -> list[Action]:
        """The same as `propose`; the state may have moved on when the answer comes, and each action is checked."""
        ...


class FirstFit:
    """The native ordering: one action at a time, so each sees the effect of the last; more where that is the same."""

    one_by_one = False
    """Propose no more than one action, for whoever takes no more."""

    def propose(self, state: State, now: int) -> list[Action]:
        """The first job in order that fits, on the first worker that it fits."""
        if not state.ready.size:
            return []
        settings = state.settings
        preempting = settings.preempting_classes if settings.preemption and state.preemptible else ()
        if not state.open_workers:
            if not preempting and not state.ready.external:
                return []
            state.ready.give_up_workers(state.room)
        held_back = settings.preemptible_classes if state.preempting else ()

        def ask(bucket: Bucket, job: Job) -> list[Action] | None:
            if bucket.job_class in held_back:  # it would take the room that is being made, only to be stopped for it
                return None
            action = _place(state, bucket, job, now)
            if type(action) is Dispatch and not self.one_by_one:
                return [action, *_likewise(state, bucket, action, now)]
            return None if action is None else [action]

        return state.ready.seek(state.room, preempting, ask) or []


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
    if now <= state.load.fresh_until:
        bucket.blocked_at = state.room
        if fits_nowhere:
            state.ready.give_up(shape, state.room)
    return None


def _likewise(state: State, bucket: Bucket, first: Dispatch, now: int) -> list[Action]:
    """Dispatches that would be proposed next, one after the other: the jobs behind, for the room left on the worker."""
    if first.worker_id is None:
        return []
    worker = state.workers[first.worker_id]
    if worker.slots_free < 2 or state.preempting or not state.ready.unrivalled(bucket):
        return []
    settings = state.settings
    if settings.stagger or (settings.preemption and bucket.job_class in settings.preemptible_classes):
        return []
    most = _plain_room(state, bucket, worker, now) - 1
    return [Dispatch(job.id, first.worker_id) for job in bucket.behind_head(most)]


def _plain_room(state: State, bucket: Bucket, worker: Worker, now: int) -> int:
    """How many jobs of a bucket a worker has room for, where units and slots alone decide; otherwise none."""
    shape, tenant, report = bucket.shape, state.tenants[bucket.tenant], state.pools[worker.spec.pool].report
    if shape.resources or tenant.limited or worker.spec.pull or report.units is not None or report.resources:
        return 0
    slots = worker.slots_free
    return min(slots, (state.usable_units(now) - state.leased_units) // shape.units) if shape.units else slots


def first_fit(state: State, shape: Shape, now: int) -> tuple[Worker | None, bool]:
    """The first open worker that fits, and whether time alone could change the answer."""
    waiting_helps = False
    for worker in state.open_workers.values():
        if not serves(shape, worker) or _short(shape, worker.free) or never_fits(shape, worker) is not None:
            continue  # that it is ready and has room is what makes it an open one
        closed = pool_closed(state, shape, worker.spec.pool, now)
        if closed is None:
            return worker, False
        waiting_helps = waiting_helps or isinstance(closed, Stagger)
    return None, waiting_helps


def _short(shape: Shape, free: dict[str, Amount]) -> bool:
    """Whether a named resource is short: a look before `unfit`, which would put the same into words."""
    for name, needed in shape.resources:  # noqa: SIM110 - a generator would cost twice as much
        if free.get(name, 0) < needed:
            return True
    return False
