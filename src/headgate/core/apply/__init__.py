"""Applying events: the only way the state changes. Every event here has been found legal by `decide`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.core import events as e
from headgate.core.apply import cluster, jobs, leases, load
from headgate.core.state import State


def apply(state: State, event: e.Event) -> None:
    """Change the state by one event."""
    APPLY[type(event)](state, event)


APPLY: Final[dict[type[e.Event], Callable[[State, Any], None]]] = {
    e.JobSubmitted: jobs.job_submitted,
    e.JobUnblocked: jobs.job_unblocked,
    e.JobDue: jobs.job_due,
    e.JobAged: jobs.job_aged,
    e.JobPatched: jobs.job_patched,
    e.JobCancelled: jobs.job_cancelled,
    e.DependencyFailed: jobs.dependency_failed,
    e.DependencyEnded: jobs.dependency_ended,
    e.DeadlineMissed: jobs.deadline_missed,
    e.JobsForgotten: jobs.jobs_forgotten,
    e.LeaseGranted: leases.lease_granted,
    e.JobStarted: leases.job_started,
    e.LeaseRenewed: leases.lease_renewed,
    e.JobProgressed: leases.job_progressed,
    e.JobCompleted: leases.job_completed,
    e.AttemptFailed: leases.attempt_failed,
    e.LeaseExpired: leases.lease_expired,
    e.LeaseReleased: leases.lease_released,
    e.PreemptionAsked: leases.preemption_asked,
    e.PreemptionLifted: leases.preemption_lifted,
    e.WorkerRegistered: cluster.worker_registered,
    e.WorkerChanged: cluster.worker_changed,
    e.WorkerSeen: cluster.worker_seen,
    e.WorkerClaimed: cluster.worker_claimed,
    e.WorkerRemoved: cluster.worker_removed,
    e.WorkerWanted: cluster.worker_wanted,
    e.WorkerEvicted: cluster.worker_evicted,
    e.PoolReported: cluster.pool_reported,
    e.PoolChanged: cluster.pool_changed,
    e.PoolRemoved: cluster.pool_removed,
    e.TenantSet: cluster.tenant_set,
    e.TenantRemoved: cluster.tenant_removed,
    e.ModelSet: cluster.model_set,
    e.ModelRemoved: cluster.model_removed,
    e.DocumentSet: cluster.document_set,
    e.LoadSampled: load.load_sampled,
    e.LoadWithdrawn: load.load_withdrawn,
    e.RatingChanged: load.rating_changed,
    e.CapacityChanged: load.capacity_changed,
    e.PolicyWaited: load.policy_waited,
}
