"""Checking every invariant of the domain, from scratch: nothing here trusts an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headgate.core.errors import InvariantBroken
from headgate.core.lease import number_of
from headgate.core.quantities import total
from headgate.core.state import State
from headgate.core.states import LEASED, TERMINAL, WAITING, JobState


def verify(state: State) -> None:
    """Raise `InvariantBroken` listing everything that does not hold."""
    problems = [
        *_jobs(state),
        *_leases(state),
        *_ledgers(state),
        *_debts(state),
        *_queue(state),
        *_graph(state),
        *_indexes(state),
    ]
    if problems:
        raise InvariantBroken("; ".join(problems[:20]), problems=problems)


def _jobs(state: State) -> Iterator[str]:
    counted = Counter(job.state for job in state.jobs.values())
    for job_state in JobState:
        if counted[job_state] != state.counts[job_state]:
            yield f"{state.counts[job_state]} jobs are counted as {job_state}, {counted[job_state]} are"
    kinds = Counter(id(job.kind) for job in state.jobs.values())
    for kind in state.kinds.values():
        if kind.jobs != kinds[id(kind)]:
            yield f"kind {kind.of.type} counts {kind.jobs} jobs and has {kinds[id(kind)]}"
    for job_id, job in state.jobs.items():
        if job.id != job_id:
            yield f"job {job.id} is filed as {job_id}"
        if (job.lease is not None) != (job.state in LEASED):
            yield f"job {job.id} is {job.state} and {'has' if job.lease else 'lacks'} a lease"
        if job.state in TERMINAL and job.ready:
            yield f"job {job.id} is {job.state} and ready"


def _leases(state: State) -> Iterator[str]:
    for lease_id, lease in state.leases.items():
        job = state.jobs.get(lease.job_id)
        if lease.id != lease_id or job is None or job.lease is not lease:
            yield f"lease {lease_id} is not the lease of job {lease.job_id}"
        if number_of(lease.token) > state.tokens:
            yield f"lease {lease_id} has a token that was never given out"
        timer = state.lease_timers.at(lease_id)
        if timer is None or timer > lease.due:
            yield f"lease {lease_id} is due at {lease.due} and looked at {timer}"
        worker = state.workers.get(lease.worker_id) if lease.worker_id is not None else None
        if lease.worker_id is not None and (worker is None or lease_id not in worker.leases):
            yield f"lease {lease_id} is unknown to its worker {lease.worker_id}"
    preemptible = sum(state.may_be_preempted(state.jobs[lease.job_id], lease) for lease in state.leases.values())
    if state.preemptible != preemptible:
        yield f"{state.preemptible} leases are counted as preemptible, {preemptible} are"
    if len({lease.token for lease in state.leases.values()}) != len(state.leases):
        yield "two leases share a token"
    if len(state.lease_timers) != len(state.leases):
        yield f"{len(state.lease_timers)} lease timers for {len(state.leases)} leases"


def _ledgers(state: State) -> Iterator[str]:
    leases = list(state.leases.values())
    if state.leased_units != sum(lease.units for lease in leases):
        yield f"{state.leased_units} units are booked as leased"
    for worker in state.workers.values():
        held = [lease for lease in leases if lease.worker_id == worker.id]
        free = total([worker.spec.resources, *(_negative(lease.resources) for lease in held)])
        if free != {name: value for name, value in worker.free.items() if value}:
            yield f"worker {worker.id} books {worker.free} free, it is {free}"
        if any(value < 0 for value in worker.free.values()):
            yield f"worker {worker.id} is overbooked: {worker.free}"
        if set(worker.leases) != {lease.id for lease in held}:
            yield f"worker {worker.id} lists other leases than it holds"
        if worker.running != sum(lease.started_at is not None for lease in held):
            yield f"worker {worker.id} counts {worker.running} running"
    for pool_id, pool in state.pools.items():
        held = [lease for lease in leases if lease.pool_id == pool_id]
        if pool.leased_units != sum(lease.units for lease in held) or _nonzero(pool.used) != total(
            lease.resources for lease in held
        ):
            yield f"pool {pool_id} books {pool.leased_units} units and {pool.used}"
    for tenant_id, tenant in state.tenants.items():
        held = [lease for lease in leases if lease.tenant == tenant_id]
        if (tenant.leases, tenant.leased_units) != (len(held), sum(lease.units for lease in held)):
            yield f"tenant {tenant_id} books {tenant.leases} leases and {tenant.leased_units} units"
        if _nonzero(tenant.used) != total(lease.resources for lease in held):
            yield f"tenant {tenant_id} books {tenant.used}"


def _debts(state: State) -> Iterator[str]:
    """A ledger below zero gave out what it never had, even where the books agree."""
    for name, ledger in _books(state):
        below = {what: value for what, value in ledger if value < 0}
        if below:
            yield f"{name} books less than nothing: {below}"


def _books(state: State) -> Iterator[tuple[str, list[tuple[str, int | float]]]]:
    yield "the cluster", [("units", state.leased_units), ("preemptible", state.preemptible), *state.totals.items()]
    yield "the queue", [(str(job_state), count) for job_state, count in state.counts.items()]
    for lease in state.leases.values():
        yield f"lease {lease.id}", [("units", lease.units), *lease.resources]
    for worker in state.workers.values():
        yield f"worker {worker.id}", [("running", worker.running), ("claims", worker.claims)]
    for pool_id, pool in state.pools.items():
        yield f"pool {pool_id}", [("units", pool.leased_units), *pool.used.items()]
    for tenant_id, tenant in state.tenants.items():
        booked = [("live", tenant.live), ("leases", tenant.leases), ("units", tenant.leased_units)]
        yield f"tenant {tenant_id}", [*booked, *tenant.used.items()]


def _negative(resources: tuple[tuple[str, int | float], ...]) -> tuple[tuple[str, int | float], ...]:
    return tuple((name, -value) for name, value in resources)


def _nonzero(ledger: dict[str, int | float]) -> dict[str, int | float]:
    return {name: value for name, value in ledger.items() if value}


def _queue(state: State) -> Iterator[str]:
    queued = [job.id for job in state.ready]
    if len(queued) != len(set(queued)):
        yield "a job stands in the ready queue twice"
    if len(queued) != state.ready.size or sum(state.ready.by_class) != state.ready.size:
        yield f"the ready queue counts {state.ready.size} and holds {len(queued)}"
    standing = set(queued)
    for job in state.jobs.values():
        if job.state is JobState.QUEUED and not job.ready and (job.not_before is None or job.id not in state.waits):
            yield f"job {job.id} is queued, not ready, and nothing will wake it"
        if job.state is JobState.QUEUED and not job.ready and (job.not_before or 0) <= state.ticked_at - 1:
            yield f"job {job.id} should be ready since {job.not_before}"
        if job.ready != (job.id in standing) or (job.ready and job.state is not JobState.QUEUED):
            yield f"job {job.id} is {job.state}, ready={job.ready}, queued={job.id in standing}"


def _graph(state: State) -> Iterator[str]:
    children: dict[str, set[str]] = {}
    for job in state.jobs.values():
        pending = state.graph.pending(job.id)
        if (job.state is JobState.BLOCKED) != bool(pending):
            yield f"job {job.id} is {job.state} and waits for {len(pending)} jobs"
        for dependency in pending:
            parent = state.jobs.get(dependency)
            if parent is None or parent.state in TERMINAL:
                yield f"job {job.id} waits for {dependency}, which has ended"
            if dependency not in children:  # a list may be long: looking through it for each child is not linear
                children[dependency] = set(state.graph.children(dependency))
            if job.id not in children[dependency]:
                yield f"{dependency} does not know that {job.id} waits for it"
    live = (job for job in state.jobs.values() if job.state not in TERMINAL)
    named = Counter(dependency for job in live for dependency in job.dependencies)
    if named != state.graph.named():
        yield f"live jobs depend on {len(named)} jobs, {len(state.graph.named())} are counted"


def _indexes(state: State) -> Iterator[str]:
    live = Counter(job.kind.of.tenant for job in state.jobs.values() if job.state not in TERMINAL)
    for tenant_id, tenant in state.tenants.items():
        if tenant.live != live[tenant_id]:
            yield f"tenant {tenant_id} counts {tenant.live} live jobs, has {live[tenant_id]}"
    for worker in state.workers.values():
        wanted = worker.claims > 0 or not worker.spec.pull
        is_open = worker.status == "ready" and worker.slots_free > 0 and wanted
        if is_open != (worker.id in state.open_workers):
            yield f"worker {worker.id} is {'' if is_open else 'not '}open and indexed otherwise"
    for job_id in state.jobs:
        if state.jobs[job_id].state not in WAITING and job_id in state.waits:
            yield f"job {job_id} has ended or runs, and still has a waiting timer"
    silent = state.load.stale(state.now, state.settings)
    if bool(silent) != (state.now > state.load.fresh_until):
        yield f"the load is taken to be fresh until {state.load.fresh_until}; silent at {state.now}: {silent}"
    if state.totals != _cluster_total(state) and _nonzero(state.totals) != _cluster_total(state):
        yield f"the cluster books {state.totals} in all"


def _cluster_total(state: State) -> dict[str, int | float]:
    return total(worker.spec.resources for worker in state.workers.values())
