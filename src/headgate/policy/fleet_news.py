"""What a mirror has been told of each worker, and the least that brings it up to date.

A worker's record is mostly the jobs it runs, and most changes are one job that begins or ends there: only that travels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headgate.core.cluster import Worker, WorkerSpec
from headgate.core.lease import Lease
from headgate.core.state import State
from headgate.policy import deltas as d

_Figures = tuple[str, int, float | None, dict[str, float], int, int]
_MANY = 16
"""More jobs than this, and the whole record is read sooner than so many changes to it."""
_FIGURES = ("status", "slots_free", "vram_free", "resources_free", "jobs_completed", "last_used_at")


class _Running(NamedTuple):
    lease_id: str
    shown: d.RunningJob


class _Told:
    """One worker as the mirror knows it."""

    __slots__ = ("figures", "running", "spec")

    def __init__(self, spec: WorkerSpec, figures: _Figures, running: dict[str, _Running]) -> None:
        self.spec, self.figures, self.running = spec, figures, running


class FleetNews:
    """Follows which workers and which of their jobs to look at again."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        self._place: dict[str, str] = {}
        """Where the mirror believes a job to run."""
        self._touched: dict[str, dict[str, None]] = {}

    def touch(self, worker_id: str) -> None:
        """Something about this worker changed."""
        self._touched.setdefault(worker_id, {})

    def touch_job(self, job_id: str, worker_id: str | None) -> None:
        """A job began, changed or ended on this worker; wherever the mirror believes it to run is looked at too."""
        for place in (self._place.get(job_id), worker_id):
            if place is not None:
                self._touched.setdefault(place, {})[job_id] = None

    def touch_running(self, job_id: str) -> None:
        """A job changed that may be running."""
        if job_id in self._place:
            self.touch_job(job_id, None)

    def everything(self, state: State) -> Iterator[d.Delta]:
        """All workers, for a mirror that knows nothing."""
        self._told, self._place, self._touched = {}, {}, {}
        for worker in state.workers.values():
            yield self._whole(state, worker)

    def news(self, state: State) -> Iterator[d.Delta]:
        """What has changed since the mirror was last told."""
        touched, self._touched = self._touched, {}
        for worker_id, jobs in touched.items():
            worker, told = state.workers.get(worker_id), self._told.get(worker_id)
            if worker is None:
                if told is not None:
                    self._forget(worker_id)
                    yield d.WorkerRemoved(worker_id)
            elif told is None or told.spec is not worker.spec or len(jobs) > _MANY:
                self._forget(worker_id)
                yield self._whole(state, worker)
            else:
                yield from self._jobs(state, worker, told, jobs)
                yield from _changes(worker, told)

    def _forget(self, worker_id: str) -> None:
        told = self._told.pop(worker_id, None)
        for job_id in told.running if told is not None else ():
            if self._place.get(job_id) == worker_id:
                del self._place[job_id]

    def _whole(self, state: State, worker: Worker) -> d.WorkerSet:
        leases = [state.leases[lease_id] for lease_id in worker.leases]
        running = {lease.job_id: _Running(lease.id, _running(state, lease)) for lease in leases}
        figures = _figures(worker)
        self._told[worker.id] = _Told(worker.spec, figures, running)
        self._place.update(dict.fromkeys(running, worker.id))
        return _worker(worker, figures, [each.shown for each in running.values()])

    def _jobs(self, state: State, worker: Worker, told: _Told, jobs: Iterable[str]) -> Iterator[d.Delta]:
        fresh: list[Lease] = []
        for job_id in jobs:
            known, lease = told.running.get(job_id), _lease_on(state, worker, job_id)
            if known is not None and (lease is None or lease.id != known.lease_id):
                del told.running[job_id]
                self._place.pop(job_id, None)
                yield d.RunningRemoved(worker.id, job_id)
                known = None
            if lease is not None and known is None:
                fresh.append(lease)
            elif lease is not None and known is not None and (shown := _running(state, lease)) != known.shown:
                told.running[job_id] = _Running(lease.id, shown)
                yield d.RunningSet(worker.id, shown)
        for lease in sorted(fresh, key=_token) if len(fresh) > 1 else fresh:  # in the order of the worker's own list
            shown = _running(state, lease)
            told.running[lease.job_id] = _Running(lease.id, shown)
            self._place[lease.job_id] = worker.id
            yield d.RunningSet(worker.id, shown)


def _token(lease: Lease) -> int:
    return lease.token


def _lease_on(state: State, worker: Worker, job_id: str) -> Lease | None:
    job = state.jobs.get(job_id)
    lease = job.lease if job is not None else None
    return lease if lease is not None and lease.id in worker.leases else None


def _changes(worker: Worker, told: _Told) -> Iterator[d.Delta]:
    figures = _figures(worker)
    if figures == told.figures:
        return
    changes: list[Any] = []
    for name, new, old in zip(_FIGURES, figures, told.figures, strict=True):
        if new != old:
            changes += (name, new)
    told.figures = figures
    yield d.WorkerChanged(worker.id, changes)


def _figures(worker: Worker) -> _Figures:
    free = worker.slots_free
    if worker.spec.pull:
        free = min(free, worker.claims)
    return (
        worker.shown_status, max(0, free), worker.free.get("vram"), dict(worker.free), worker.completed,
        worker.last_used,
    )  # fmt: skip


def _worker(worker: Worker, figures: _Figures, running: list[d.RunningJob]) -> d.WorkerSet:
    spec = worker.spec
    status, slots_free, vram_free, free, completed, last_used = figures
    return d.WorkerSet(
        id=worker.id,
        pool_id=spec.pool,
        status=status,
        model_ref=spec.model_ref,
        slots=spec.slots,
        slots_free=slots_free,
        vram_free=vram_free,
        resources_free=free,
        gpu_ids=list(spec.gpu_ids),
        labels=dict(spec.labels),
        current_jobs=running,
        jobs_completed=completed,
        last_used_at=last_used,
        types=None if spec.types is None else list(spec.types),
        handlers=spec.handlers,
    )


def _running(state: State, lease: Lease) -> d.RunningJob:
    job = state.jobs[lease.job_id]
    began = lease.started_at if lease.started_at is not None else lease.granted_at
    lasts = job.kind.of.estimated_duration or job.kind.of.timeout
    return d.RunningJob(
        id=job.id,
        class_index=job.kind.job_class,
        tenant=lease.tenant,
        units=lease.units,
        resources=dict(lease.resources),
        started_at=began,
        ends_at=None if lasts is None else began + lasts,
        checkpointable=job.kind.of.checkpointable,
        stopping=lease.fence_at is not None,
    )
