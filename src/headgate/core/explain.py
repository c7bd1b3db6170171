"""Why is it waiting? A typed answer, shared by every interface."""

from __future__ import annotations

import msgspec

from headgate.core.actions import (
    AnyReason,
    Behind,
    BlockedBy,
    BusyGate,
    MakingRoom,
    NoCapacity,
    NoFittingWorker,
    NotBefore,
    NotQueued,
    PolicyWaits,
    WorkerUnfit,
)
from headgate.core.bucket import Shape, order_key
from headgate.core.check import lacks, never_fits, no_units, over_quota, pool_closed, serves, unfit
from headgate.core.cluster import Worker
from headgate.core.predict import Estimate
from headgate.core.state import Job, State
from headgate.core.states import JobState

_EXAMPLES = 5


class Explanation(msgspec.Struct, frozen=True):
    """The reasons in the order they bind, and an estimate of how many jobs go first."""

    job_id: str
    state: str
    reasons: tuple[AnyReason, ...]
    position: int | None
    expected: Estimate | None = None
    """When it should start, where somebody forecasts from this state."""


def explain(state: State, job_id: str, now: int) -> Explanation:
    """Say why a job does not run."""
    job = state.job(job_id)
    if job.state is JobState.BLOCKED:
        return Explanation(job.id, job.state, (_blocked(state, job),), None)
    if job.state is not JobState.QUEUED:
        return Explanation(job.id, job.state, (NotQueued(job.state),), None)
    if not job.ready and job.not_before is not None:
        return Explanation(job.id, job.state, (NotBefore(job.not_before, max(0, job.not_before - now)),), None)
    ahead = position(state, job)
    return Explanation(job.id, job.state, tuple(_reasons(state, job, now, ahead)), ahead)


def _blocked(state: State, job: Job) -> BlockedBy:
    pending = sorted(state.graph.pending(job.id))
    return BlockedBy(tuple(pending[:_EXAMPLES]), len(pending))


def _reasons(state: State, job: Job, now: int, ahead: int) -> list[AnyReason]:
    shape = job.kind.bucket.shape
    found: list[AnyReason | None] = []
    if job.id in state.preempting:
        victims = sorted(lease.job_id for id_ in state.preempting[job.id] if (lease := state.leases.get(id_)))
        found.append(MakingRoom(tuple(victims)))
    found += _no_units(state, shape.units, now)
    found.append(over_quota(state.tenants[job.kind.of.tenant], shape))
    if not shape.external:
        found.append(_no_worker(state, shape, now))
    reasons = [reason for reason in found if reason is not None]
    if (waits := _policy_waits(state, job, now)) is not None:
        reasons.append(waits)
    return reasons or [Behind(ahead)]


def _policy_waits(state: State, job: Job, now: int) -> PolicyWaits | None:
    """What the policy said last, where it holds until a time that has not come or was said of a queue with the job."""
    waits = state.policy_wait
    if waits is None or not waits.reason:
        return None
    concerns = job.queued_at <= waits.at if waits.until is None else now < waits.until
    return PolicyWaits(waits.reason) if concerns else None


def _no_units(state: State, units: int, now: int) -> list[AnyReason]:
    """What the gate says, and what shuts it that far."""
    reason, load, settings = no_units(state, units, now), state.load, state.settings
    if isinstance(reason, BusyGate):
        return [reason if reason.because else BusyGate(reason.rating, load.words(now, settings))]
    if not isinstance(reason, NoCapacity):
        return []
    if units > settings.total_units - settings.reserve - state.leased_units or load.busy <= 0:
        return [reason]  # an idle machine would have no room either
    return [reason, BusyGate(load.rating, load.words(now, settings))]


def startable(state: State, job: Job) -> bool:
    """Whether time alone can bring a waiting job to its start: it fits the units, and a worker that is there.

    When a machine that takes nothing now will take something again, nobody knows.
    """
    shape = job.kind.bucket.shape
    if shape.units > state.settings.total_units - state.settings.reserve:
        return False
    return shape.external or any(
        worker.status in ("ready", "starting")
        and _lasting(shape, worker) is None
        and lacks(shape, worker.id, dict(worker.spec.resources)) is None
        and _takes_work(state, shape, worker.spec.pool)
        for worker in state.workers.values()
    )


def _takes_work(state: State, shape: Shape, pool_id: str) -> bool:
    """Whether the machine is heard of, not too busy for anything, and large enough."""
    pool = state.pools[pool_id]
    if pool.status == "offline" or pool.shut:
        return False
    if pool.last_report is None and pool_id in state.settings.required_pools:
        return False
    return pool.report.units is None or shape.units <= pool.report.units


def _no_worker(state: State, shape: Shape, now: int) -> AnyReason | None:
    """None if a worker fits; a reason of the pool if only time stands in the way; else what each worker lacks."""
    failing: dict[str, int] = {}
    examples: list[WorkerUnfit] = []
    closed: AnyReason | None = None
    for worker in state.workers.values():
        problem = _problem(shape, worker)
        if problem is None:
            reason = pool_closed(state, shape, worker.spec.pool, now)
            if reason is None:
                return None
            closed = closed or reason
        else:
            failing[problem.requirement] = failing.get(problem.requirement, 0) + 1
            if failing[problem.requirement] == 1 or len(examples) < _EXAMPLES:
                examples.append(problem)
    return closed or NoFittingWorker(len(state.workers), failing, tuple(examples[:_EXAMPLES]))


def _problem(shape: Shape, worker: Worker) -> WorkerUnfit | None:
    """What waiting cannot mend is named before what it can."""
    return _lasting(shape, worker) or unfit(shape, worker)


def _lasting(shape: Shape, worker: Worker) -> WorkerUnfit | None:
    lasting = never_fits(shape, worker)
    if lasting is None and not serves(shape, worker):
        return WorkerUnfit(worker.id, "model", shape.model_ref or "any", worker.spec.model_ref or "")
    return lasting


def position(state: State, job: Job) -> int:
    """How many ready jobs are ahead: those of higher classes, and those before it in its own class.

    Fair share can let others pass, so between tenants this is an estimate.
    """
    job_class = job.kind.job_class
    ahead = sum(state.ready.by_class[:job_class])
    mine = order_key(job)
    for bucket in state.ready.buckets():
        if bucket.job_class == job_class:
            ahead += bucket.count_before(mine)
    return ahead
