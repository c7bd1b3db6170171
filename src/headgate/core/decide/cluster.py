"""Workers, pools, tenants and models come, change and go."""

from __future__ import annotations

import math

import msgspec

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.cluster import Worker, WorkerSpec
from headgate.core.decide.leases import expire
from headgate.core.decide.turn import Turn
from headgate.core.errors import Conflict, DocumentMoved, InvalidInput, WorkerBusy
from headgate.core.quantities import Resources, amount, plain
from headgate.core.tenants import TenantSpec
from headgate.core.typed import typed

OWN_KINDS = ("worker", "tenant", "model")


def register_worker(turn: Turn, command: c.RegisterWorker) -> None:
    """A worker that registers anew keeps its leases, so it must still be able to hold them; a held one gets no more."""
    spec = typed(command.spec, "worker")
    _check_worker(spec)
    known = turn.state.workers.get(spec.id)
    if known is not None:
        _check_holds(known, spec)
    turn.emit(e.WorkerRegistered(turn.now, spec, "draining" if known is not None and known.held else "ready"))


def _check_worker(spec: WorkerSpec) -> None:
    for field in ("id", "pool"):
        if not getattr(spec, field):
            raise InvalidInput("must not be empty", field=field)
    if not 1 <= spec.slots <= 100_000:
        raise InvalidInput("must be between 1 and 100000", field="slots")
    if not 0 <= spec.prefetch <= 100_000:
        raise InvalidInput("must be between 0 and 100000", field="prefetch")
    _check_amounts(spec.resources, "resources")


def _check_amounts(resources: Resources, field: str) -> None:
    """Each name once and each amount one that adds up: a ledger that begins wrong never comes right."""
    if len(dict(resources)) != len(resources):
        raise InvalidInput("names a resource twice", field=field)
    for name, value in resources:
        if not name:
            raise InvalidInput("must not be empty", field=field)
        amount(value, f"{field}.{name}")


def _check_holds(known: Worker, spec: WorkerSpec) -> None:
    offered = dict(spec.resources)
    for name, total in known.spec.resources:
        held = total - known.free.get(name, 0)
        if held > offered.get(name, 0):
            text = f"worker {spec.id} holds {plain(held)} {name} in leases and now offers {plain(offered.get(name, 0))}"
            raise WorkerBusy(text, worker_id=spec.id)


def worker_beat(turn: Turn, command: c.WorkerBeat) -> None:
    """A sign of life; an offline worker that gives one is back."""
    worker = turn.state.worker(command.worker_id)
    turn.emit(e.WorkerSeen(turn.now, worker.id))
    if worker.status == "offline":
        turn.emit(e.WorkerChanged(turn.now, worker.id, "ready", "it is heard again"))


def claim(turn: Turn, command: c.Claim) -> None:
    """Only pulling workers claim."""
    worker = turn.state.worker(command.worker_id)
    if not worker.spec.pull:
        raise Conflict(f"worker {worker.id} is given work as it comes and does not claim", worker_id=worker.id)
    if command.claims < 0:
        raise InvalidInput("must not be negative", field="claims")
    turn.emit(e.WorkerClaimed(turn.now, worker.id, command.claims))


def drain_worker(turn: Turn, command: c.DrainWorker) -> None:
    """Draining twice is the same as once."""
    worker = turn.state.worker(command.worker_id)
    if worker.status != "draining" or (command.hold and not worker.held):
        turn.emit(e.WorkerChanged(turn.now, worker.id, "draining", command.reason, command.hold))


def undrain_worker(turn: Turn, command: c.UndrainWorker) -> None:
    """The way back; one that does not drain stays as it is. Who fell silent meanwhile has to be heard first."""
    worker = turn.state.worker(command.worker_id)
    if worker.status == "draining":
        silent = turn.now - worker.last_seen > turn.state.settings.worker_silence
        turn.emit(e.WorkerChanged(turn.now, worker.id, "offline" if silent else "ready", command.reason))


def evict_worker(turn: Turn, command: c.EvictWorker) -> None:
    """Its leases stay its own until it has let go: nobody else begins what it may still be doing."""
    turn.emit(e.WorkerEvicted(turn.now, turn.state.worker(command.worker_id).id, command.reason))


def fail_worker(turn: Turn, command: c.FailWorker) -> None:
    """What it held is lost."""
    worker = turn.state.worker(command.worker_id)
    _expire_all(turn, worker)
    turn.emit(e.WorkerChanged(turn.now, worker.id, "failed", command.reason))


def remove_worker(turn: Turn, command: c.RemoveWorker) -> None:
    """A worker leaves with nothing in hand, or by force."""
    worker = turn.state.worker(command.worker_id)
    if worker.leases and not command.force:
        raise WorkerBusy(f"worker {worker.id} holds {len(worker.leases)} leases", worker_id=worker.id)
    _expire_all(turn, worker)
    turn.emit(e.WorkerRemoved(turn.now, worker.id))


def _expire_all(turn: Turn, worker: Worker) -> None:
    for lease_id in list(worker.leases):
        expire(turn, turn.state.leases[lease_id])


def report_pool(turn: Turn, command: c.ReportPool) -> None:
    """A pool's word on its machine; a rating that cannot be believed counts as 10."""
    report = typed(command.report, "pool")
    if not report.id:
        raise InvalidInput("must not be empty", field="id")
    if report.units is not None and report.units < 0:
        raise InvalidInput("must not be negative", field="units")
    _check_amounts(report.resources, "resources")
    turn.emit(e.PoolReported(turn.now, report))
    for worker_id in report.workers:
        worker = turn.state.workers.get(worker_id)
        if worker is not None and worker.spec.pool == report.id and worker.status == "offline":
            turn.emit(e.WorkerChanged(turn.now, worker_id, "ready", "its pool is heard again"))


def remove_pool(turn: Turn, command: c.RemovePool) -> None:
    """Only an empty pool can go."""
    pool = turn.state.pool(command.pool_id)
    members = [worker for worker in turn.state.workers.values() if worker.spec.pool == pool.report.id]
    if members or any(lease.pool_id == pool.report.id for lease in turn.state.leases.values()):
        raise Conflict(f"pool {pool.report.id} has {len(members)} workers", pool_id=pool.report.id)
    turn.emit(e.PoolRemoved(turn.now, pool.report.id))


def set_tenant(turn: Turn, command: c.SetTenant) -> None:
    """Quotas bind what is granted from now on; nothing is taken back."""
    _check_tenant(typed(command.spec, "tenant"))
    turn.emit(e.TenantSet(turn.now, command.spec))


def _check_tenant(spec: TenantSpec) -> None:
    if not spec.id:
        raise InvalidInput("must not be empty", field="id")
    if not (math.isfinite(spec.weight) and spec.weight > 0):
        raise InvalidInput("must be greater than zero", field="weight")
    for field in ("max_units", "max_leases", "max_queued"):
        limit = getattr(spec, field)
        if limit is not None and limit < 0:
            raise InvalidInput("must not be negative", field=field)
    _check_amounts(spec.max_resources, "max_resources")


def remove_tenant(turn: Turn, command: c.RemoveTenant) -> None:
    """Its jobs stay; its quotas go."""
    turn.emit(e.TenantRemoved(turn.now, turn.state.tenant(command.tenant_id).spec.id))


def set_model(turn: Turn, command: c.SetModel) -> None:
    """Enter or replace a model."""
    if not typed(command.spec, "model").id:
        raise InvalidInput("must not be empty", field="id")
    if command.spec.vram < 0:
        raise InvalidInput("must not be negative", field="vram")
    turn.emit(e.ModelSet(turn.now, command.spec))


def remove_model(turn: Turn, command: c.RemoveModel) -> None:
    """Take a model out of the catalog."""
    turn.emit(e.ModelRemoved(turn.now, turn.state.model(command.model_id).id))


def put_document(turn: Turn, command: c.PutDocument) -> None:
    """Compare and set. Kinds that the core itself keeps rows of are not to be had."""
    for field in ("kind", "id"):
        if not getattr(command, field):
            raise InvalidInput("must not be empty", field=field)
    typed(command, "document")
    if command.kind in OWN_KINDS:
        raise InvalidInput(f"{command.kind!r} is kept by the core itself", field="kind")
    present = turn.state.documents.get((command.kind, command.id))
    if command.expect is not msgspec.UNSET and command.expect != present:
        text = f"{command.kind} {command.id!r} is no longer what the change was based on"
        raise DocumentMoved(text, kind=command.kind, id=command.id)
    if command.body != present:
        turn.emit(e.DocumentSet(turn.now, command.kind, command.id, command.body))
