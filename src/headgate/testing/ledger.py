"""What is still free while the answers of one cycle are carried out: an independent second opinion on what holds."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.policy import answers
from headgate.policy import deltas as d
from headgate.testing.scenes import Scene

OPEN = ("ready", "busy")


class Ledger:
    """A scene that follows a policy's answers. It refuses nothing; whoever looks at it does."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.jobs = {job.id: job for job in scene.jobs}
        self.queued = {job.id: job for job in sorted(scene.jobs, key=lambda job: (job.class_index, -job.rank, job.seq))}
        self.workers = {worker.id: worker for worker in scene.workers}
        self.status = {worker.id: worker.status for worker in scene.workers}
        self.slots = {worker.id: worker.slots_free for worker in scene.workers}
        self.resources = {worker.id: dict(worker.resources_free) for worker in scene.workers}
        self.vram = {worker.id: worker.vram_free for worker in scene.workers}
        self.usage = {tenant.id: dict(tenant.usage) for tenant in scene.tenants}
        self.quotas = {tenant.id: tenant.quotas for tenant in scene.tenants}
        self.free_units = scene.free_units

    # -- what stands against a dispatch --------------------------------------------------------------------------

    def closed(self, worker_id: str) -> str | None:
        """Why the worker takes nothing now."""
        status = self.status[worker_id]
        if status not in OPEN:
            return f"is {status}"
        return "has no free slot" if self.slots[worker_id] < 1 else None

    def unsuited(self, job: d.JobAdded, worker_id: str) -> str | None:
        """Why the worker could never run the job."""
        worker = self.workers[worker_id]
        if job.handler and not worker.handlers:
            return "has no handlers"
        if worker.types is not None and job.type is not None and job.type not in worker.types:
            return f"has no handler for {job.type}"
        if job.pool is not None and job.pool != worker.pool_id:
            return f"is not in {job.pool}"
        missing = [f"{name}={value}" for name, value in job.requires.items() if worker.labels.get(name) != value]
        return f"has no label {missing[0]}" if missing else None

    def lacking(self, job: d.JobAdded, worker_id: str) -> Iterator[str]:
        """What of the job's needs the worker has not enough of."""
        free = {**self.resources[worker_id], "slots": self.slots[worker_id]}
        for name, amount in job.resources.items():
            if amount > free.get(name, 0):
                yield f"{amount:g} {name} of {free.get(name, 0):g} free"
        vram = self.vram[worker_id]
        unloaded = self.workers[worker_id].model_ref is None and "vram" not in job.resources
        if unloaded and job.estimated_vram is not None and vram is not None and job.estimated_vram > vram:
            yield f"{job.estimated_vram:g} vram of {vram:g} free"

    def over_quota(self, job: d.JobAdded) -> Iterator[str]:
        """Which quotas of its tenant the job would exceed."""
        used, quotas = self.usage.get(job.tenant, {}), self.quotas.get(job.tenant, {})
        for name, amount in _charges(job).items():
            if name in quotas and used.get(name, 0) + amount > quotas[name]:
                yield f"{used.get(name, 0) + amount:g} {name} of {quotas[name]:g} allowed to {job.tenant}"

    def over_units(self, job: d.JobAdded) -> bool:
        """Whether the job takes more units than there are."""
        return job.units > self.free_units

    def place_for(self, job: d.JobAdded) -> str | None:
        """A worker that could take the job now (`itself` for an external one); none if it has to wait.

        A worker that holds a model is left to jobs for that model, as is the custom of the platform policy.
        """
        if self.over_units(job) or any(self.over_quota(job)) or self._estimated_over(job):
            return None
        if job.external:
            return "itself"
        return next((worker_id for worker_id in self.workers if self._takes(job, worker_id)), None)

    def _estimated_over(self, job: d.JobAdded) -> bool:
        """An estimate is no need, so no quota is broken by it; but holding the job back for it is no idling."""
        quota = self.quotas.get(job.tenant, {}).get("vram")
        used = self.usage.get(job.tenant, {}).get("vram", 0)
        return quota is not None and used + (job.estimated_vram or 0) > quota

    def _takes(self, job: d.JobAdded, worker_id: str) -> bool:
        model = self.scene.model_of(self.workers[worker_id].model_ref)
        if model is not None and model != self.scene.model_of(job.model_ref):
            return False
        return not (self.closed(worker_id) or self.unsuited(job, worker_id) or any(self.lacking(job, worker_id)))

    # -- what an answer changes ----------------------------------------------------------------------------------

    def apply(self, action: answers.Action) -> None:
        """Follow an answer."""
        match action:
            case answers.Dispatch():
                self._dispatch(action)
            case answers.Preempt():
                self.queued.pop(action.job_id, None)
            case answers.Evict():
                self.status[action.evict_worker_id] = "draining"
            case _:
                pass

    def _dispatch(self, action: answers.Dispatch) -> None:
        job = self.queued.pop(action.job_id, None)
        if job is None:
            return
        self.free_units -= job.units
        used = self.usage.setdefault(job.tenant, {})
        for name, amount in _charges(job).items():
            used[name] = used.get(name, 0) + amount
        if action.worker_id in self.workers:
            self._charge(job, action.worker_id)

    def _charge(self, job: d.JobAdded, worker_id: str) -> None:
        self.slots[worker_id] -= int(job.resources.get("slots", 1))
        free = self.resources[worker_id]
        for name, amount in job.resources.items():
            if name != "slots":
                free[name] = free.get(name, 0) - amount
        vram = self.vram[worker_id]
        if vram is not None and job.estimated_vram is not None and self.workers[worker_id].model_ref is None:
            self.vram[worker_id] = vram - job.estimated_vram


def _charges(job: d.JobAdded) -> dict[str, float]:
    """What a job counts for against the quotas of its tenant."""
    return {"jobs": 1, "units": job.units, **job.resources}
