"""Preemption: whom to stop so that a job of a high class fits.

Victims are chosen by (lowest class, least work lost, fewest). They are told at their next heartbeat, have a grace
period to checkpoint, and are then fenced off and queued again. Nobody is stopped where that makes no room.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.actions import AnyReason, BadAction, NotQueued, Preempt
from headgate.core.bucket import Shape
from headgate.core.check import gate_shut, lacks, never_fits, over_quota, serves
from headgate.core.cluster import Worker
from headgate.core.quantities import Amount, total
from headgate.core.state import Job, State
from headgate.core.tenants import Tenant

MOST_VICTIMS = 32
"""Stopping more jobs than this for one is never the better plan."""


class Vacated:
    """The state as it would be with some leases gone."""

    def __init__(self, state: State, victims: Sequence[str]) -> None:
        self._state = state
        self._leases = [lease for victim in victims if (lease := state.jobs[victim].lease) is not None]

    def fits(self, job: Job, now: int, worker: Worker | None = None) -> bool:
        """Whether the job would fit, on the given worker or anywhere (reasons that pass with time do not count)."""
        shape = job.kind.bucket.shape
        if not self._units_fit(shape, now) or self._quota_stops(job):
            return False
        if shape.external:
            return True
        workers = self._state.workers.values() if worker is None else (worker,)
        return any(self.fits_on(shape, worker) for worker in workers)

    def _units_fit(self, shape: Shape, now: int) -> bool:
        if not shape.units and gate_shut(self._state, now):
            return False
        freed = sum(lease.units for lease in self._leases)
        return self._state.leased_units - freed + shape.units <= self._state.usable_units(now)

    def _quota_stops(self, job: Job) -> bool:
        tenant = self._state.tenants[job.kind.of.tenant]
        own = [lease for lease in self._leases if lease.tenant == tenant.spec.id]
        if not own:
            return over_quota(tenant, job.kind.bucket.shape) is not None
        eased = Tenant(tenant.spec, declared=tenant.declared)
        eased.leases = tenant.leases - len(own)
        eased.leased_units = tenant.leased_units - sum(lease.units for lease in own)
        eased.used = dict(tenant.used)
        for lease in own:
            for name, value in lease.resources:
                eased.used[name] -= value
        return over_quota(eased, job.kind.bucket.shape) is not None

    def fits_on(self, shape: Shape, worker: Worker) -> bool:
        """Whether the worker and its pool would have room."""
        if worker.status != "ready":
            return False
        here = [lease for lease in self._leases if lease.worker_id == worker.id]
        if worker.slots_free + len(here) <= 0 or never_fits(shape, worker) is not None:
            return False
        if worker.spec.pull and worker.claims <= 0 and not here:
            return False
        free: dict[str, Amount] = dict(worker.free)
        for lease in here:
            for name, value in lease.resources:
                free[name] = free.get(name, 0) + value
        if lacks(shape, worker.id, free) is not None:
            return False
        return self._fits_in(shape, worker.spec.pool)

    def _fits_in(self, shape: Shape, pool_id: str) -> bool:
        """Whether the machine would have room; how soon after its last start does not count."""
        pool = self._state.pools[pool_id]
        if pool.status == "offline" or pool.shut:
            return False
        gone = [lease for lease in self._leases if lease.pool_id == pool_id]
        usable = pool.usable_units()
        if usable is not None and pool.leased_units - sum(lease.units for lease in gone) + shape.units > usable:
            return False
        freed, needed = total(lease.resources for lease in gone), dict(shape.resources)
        return all(
            pool.used.get(name, 0) - freed.get(name, 0) + needed[name] <= limit
            for name, limit in pool.report.resources
            if name in needed
        )


def find_victims(state: State, job: Job, now: int) -> tuple[str, ...]:
    """The best victims for a job, as ids of jobs; empty if stopping anyone would not help or is not allowed."""
    settings = state.settings
    if not (settings.preemption and state.preemptible and job.kind.of.job_class in settings.preempting_classes):
        return ()
    if job.id in state.preempting:
        return ()
    shape, as_it_is = job.kind.bucket.shape, Vacated(state, ())
    ranked = sorted(_candidates(state), key=lambda victim: _loss(victim, now))
    if shape.external:
        return () if as_it_is.fits(job, now) else _enough(state, job, ranked, now, None)
    workers = [worker for worker in state.workers.values() if serves(shape, worker)]
    if any(as_it_is.fits(job, now, worker) for worker in workers):
        return ()
    options = [_on_worker(state, job, ranked, now, worker) for worker in workers]
    return min((option for option in options if option), key=lambda option: _cost(state, option, now), default=())


def _on_worker(state: State, job: Job, ranked: list[Job], now: int, worker: Worker) -> tuple[str, ...]:
    """Those on the worker first, then anybody: units are shared by all, slots and memory are not."""
    here = [victim for victim in ranked if victim.lease is not None and victim.lease.worker_id == worker.id]
    if not Vacated(state, [victim.id for victim in here]).fits_on(job.kind.bucket.shape, worker):
        return ()
    return _enough(state, job, here + [victim for victim in ranked if victim not in here], now, worker)


def _candidates(state: State) -> list[Job]:
    leased = ((state.jobs[lease.job_id], lease) for lease in state.leases.values())
    return [job for job, lease in leased if state.may_be_preempted(job, lease)]


def _loss(job: Job, now: int) -> tuple[int, int, int]:
    """Lowest class first, then least work lost; a job that can checkpoint loses little."""
    lease = job.lease
    began = lease.started_at if lease is not None else None
    lost = 0 if began is None or job.kind.of.checkpointable else now - began
    return (-job.kind.job_class, lost, job.seq)


def _cost(state: State, victims: tuple[str, ...], now: int) -> tuple[int, int, int, tuple[str, ...]]:
    losses = [_loss(state.jobs[victim], now) for victim in victims]
    return (max(loss[0] for loss in losses), sum(loss[1] for loss in losses), len(victims), victims)


def _enough(state: State, job: Job, ranked: list[Job], now: int, worker: Worker | None) -> tuple[str, ...]:
    """Add victims in order until the job fits, then spare those that were not needed after all."""
    chosen: list[str] = []
    for victim in ranked[:MOST_VICTIMS]:
        chosen.append(victim.id)
        if Vacated(state, chosen).fits(job, now, worker):
            break
    else:
        return ()
    for victim_id in chosen[:-1]:
        spared = [other for other in chosen if other != victim_id]
        if Vacated(state, spared).fits(job, now, worker):
            chosen = spared
    return tuple(chosen)


def check_preempt(state: State, action: Preempt, now: int) -> AnyReason | None:
    """Only a job of a preempting class, only preemptible victims, and only if it makes room."""
    settings = state.settings
    job = state.jobs.get(action.job_id)
    if job is None:
        return BadAction(f"there is no job {action.job_id!r}")
    if not job.ready:
        return NotQueued(str(job.state))
    if not settings.preemption or job.kind.of.job_class not in settings.preempting_classes:
        return BadAction("jobs of this class do not preempt")
    if action.job_id in state.preempting:
        return BadAction("room is being made for this job already")
    if not action.victims or len(set(action.victims)) != len(action.victims):
        return BadAction("a preemption names its victims, each once")
    for victim in action.victims:
        problem = _no_victim(state, victim)
        if problem:
            return BadAction(problem)
    return None if Vacated(state, action.victims).fits(job, now) else BadAction("stopping the victims makes no room")


def _no_victim(state: State, victim: str) -> str:
    job = state.jobs.get(victim)
    if job is None or job.lease is None:
        return f"{victim!r} holds no lease"
    if job.kind.job_class not in state.settings.preemptible_classes:
        return f"{victim!r} is of a class that is not preempted"
    return f"{victim!r} is being preempted already" if job.lease.fence_at is not None else ""
