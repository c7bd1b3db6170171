"""A state rebuilt from the disk must be the state that is running: a restart changes nothing that was committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.core.settings import Settings
from headgate.core.state import Job, State
from headgate.core.states import TERMINAL
from headgate.engine.recovery import recover
from headgate.engine.replay import Tables
from headgate.testing.simulation.world import Violation


def same_as_recovered(state: State, tables: Tables, settings: Settings, now: int) -> None:
    """Raise `Violation` where a restart at this moment would come up with something else."""
    rebuilt, _ = recover(tables, settings, tables.mark._replace(epoch=state.epoch), now)
    for what, running, restarted in _parts(state, rebuilt):
        for name in sorted({*running, *restarted}):
            if running.get(name) != restarted.get(name):
                raise Violation(
                    f"{what} {name} is {running.get(name)} and would be {restarted.get(name)} after a restart"
                )


def _parts(state: State, rebuilt: State) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    yield "job", _live(state), _live(rebuilt)
    yield "tenant", _tenants(state), _tenants(rebuilt)
    yield "worker", _workers(state), _workers(rebuilt)
    yield "model", dict(state.models), dict(rebuilt.models)
    yield "document", _named(state), _named(rebuilt)
    yield "number", {"seq": state.seq, "tokens": state.tokens}, {"seq": rebuilt.seq, "tokens": rebuilt.tokens}


def _live(state: State) -> dict[str, Any]:
    return {job.id: _job(state, job) for job in state.jobs.values() if job.state not in TERMINAL}


def _job(state: State, job: Job) -> tuple[Any, ...]:
    lease, settled = job.lease, job.settled
    return (
        job.state.value,
        job.attempt,
        job.not_before,
        job.queued_at,
        job.kind.of,
        job.kind.job_class,
        job.ready,
        sorted(state.graph.pending(job.id)),
        None if settled is None else (settled.lease_id, settled.token, settled.verb, settled.digest),
        None if lease is None else (lease.id, lease.token, lease.worker_id, lease.pool_id, lease.units),
        None if lease is None else (lease.granted_at, lease.started_at, lease.attempt, lease.ttl, lease.for_job),
    )


def _tenants(state: State) -> dict[str, Any]:
    found = state.tenants.items()
    return {name: (t.live, t.leases, t.leased_units, t.spec) for name, t in found if t.live or t.declared}


def _workers(state: State) -> dict[str, Any]:
    return {
        name: (worker.spec, worker.status, worker.running, sorted(worker.leases), _nonzero(worker.free))
        for name, worker in state.workers.items()
    }


def _named(state: State) -> dict[str, Any]:
    return {f"{kind}/{name}": body for (kind, name), body in state.documents.items()}


def _nonzero(ledger: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in ledger.items() if value}
