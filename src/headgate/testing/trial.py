"""One scene, one policy, one cycle: what it answered, and both in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headgate.policy import answers
from headgate.policy import deltas as d
from headgate.policy.verdict import Verdict
from headgate.testing.ledger import Ledger
from headgate.testing.scenes import Scene


class Step(msgspec.Struct, frozen=True):
    """One dispatch, and what was free just before it. An external job goes to no worker."""

    job: d.JobAdded
    worker_id: str | None
    before: Ledger

    def __str__(self) -> str:
        return f"{self.job.id} ({d.CLASSES[self.job.class_index]}) to {self.worker_id or 'its submitter'}"


class Trial(msgspec.Struct, frozen=True):
    """What an invariant looks at."""

    scene: Scene
    verdict: Verdict
    limit_ms: int

    @property
    def said(self) -> list[dict[str, Any]]:
        """The policy's own answers as it gave them, also where the platform policy had to decide instead."""
        if self.verdict.refused is not None:
            return self.verdict.refused.actions
        return [] if self.verdict.failure is not None else self.verdict.answer.actions

    @property
    def actions(self) -> list[answers.Action]:
        """Its answers, batches laid flat; what is no answer at all is left out."""
        return [action for raw in self.said for action in _readable(raw)]

    @property
    def waited(self) -> bool:
        """Whether the cycle ended because the policy had no more to say."""
        return self.verdict.failure is None and self.verdict.answer.stopped == "wait"

    def dispatches(self) -> Iterator[Step]:
        """Every dispatch of a known job, each with what was free just before."""
        ledger = Ledger(self.scene)
        for action in self.actions:
            if isinstance(action, answers.Dispatch) and action.job_id in ledger.jobs:
                known = action.worker_id is None or action.worker_id in ledger.workers
                if known:
                    yield Step(ledger.jobs[action.job_id], action.worker_id, ledger)
            ledger.apply(action)

    def after(self) -> Ledger:
        """What is free at the end."""
        ledger = Ledger(self.scene)
        for action in self.actions:
            ledger.apply(action)
        return ledger


_ONE: Any = answers.Action | answers._Batch  # noqa: SLF001 - the same reading as the engine's


def _readable(raw: dict[str, Any]) -> list[answers.Action]:
    try:
        found = msgspec.convert(raw, _ONE)
    except msgspec.ValidationError:
        return []
    return list(found.actions) if hasattr(found, "actions") else [found]


# -- in words ------------------------------------------------------------------------------------------------


def tell(trial: Trial) -> str:
    """A scene and its answer, as one would describe them to a colleague."""
    scene = trial.scene
    answered = [f"{number}. {told(action)}" for number, action in enumerate(trial.said, 1)]
    if trial.verdict.failure is not None:
        answered.append(f"({trial.verdict.failure}: {trial.verdict.message})")
    free = f"{scene.free_units:g} of {scene.usable_units:g} units free"
    return "\n".join(
        [
            *_block("jobs", [_job(job) for job in scene.jobs]),
            *_block("workers", [_worker(worker) for worker in scene.workers]),
            *_block("tenants", [_tenant(tenant) for tenant in scene.tenants if tenant.quotas]),
            *_block("models", [_model(model) for model in scene.models]),
            *_block("capacity", [f"{free}, weekday {scene.weekday}, {scene.hour} o'clock, seed {scene.seed}"]),
            *_block("the policy answered", answered),
        ]
    )


def told(raw: dict[str, Any]) -> str:
    """An answer in words, or as it is where it makes no sense."""
    because = f" because {raw['reason']!r}" if raw.get("reason") else ""
    match raw.get("action"):
        case "dispatch":
            return f"dispatch {raw.get('job_id')} to {raw.get('worker_id') or 'its submitter'}{because}"
        case "wait":
            return f"wait{because}"
        case "evict":
            return f"evict {raw.get('evict_worker_id')}{because}"
        case "preempt":
            return f"preempt {raw.get('victims')} for {raw.get('job_id')}{because}"
        case _:
            return repr(raw)


def _block(title: str, lines: list[str]) -> list[str]:
    return [f"{title}: none"] if not lines else [f"{title}:", *(f"  {line}" for line in lines)]


def _job(job: d.JobAdded) -> str:
    plain = d.JobAdded(job.id, job.class_index, 0, job.seq, name="job", type="generic", priority=job.priority)
    hidden = {"id", "class_index", "seq", "priority", "units", "created_at", "queued_at"}
    return f"{job.id}: {job.priority}, {job.units:g} unit{'' if job.units == 1 else 's'}{_odd(job, plain, hidden)}"


def _worker(worker: d.WorkerSet) -> str:
    plain = d.WorkerSet(worker.id, worker.pool_id, worker.status)
    hidden = {"id", "pool_id", "status", "slots", "slots_free", "current_jobs", "last_used_at", "jobs_completed"}
    running = "".join(f", runs {job.id} ({d.CLASSES[job.class_index]})" for job in worker.current_jobs)
    slots = f"{worker.slots_free} of {worker.slots} slots free"
    return f"{worker.id} in {worker.pool_id}: {worker.status}, {slots}{_odd(worker, plain, hidden)}{running}"


def _tenant(tenant: d.TenantSet) -> str:
    return f"{tenant.id}: quotas {tenant.quotas}, uses {tenant.usage}"


def _model(model: d.ModelSet) -> str:
    return f"{model.ref}: {model.vram or 0:g} vram, also called {', '.join(model.aliases) or 'nothing else'}"


def _odd(value: msgspec.Struct, plain: msgspec.Struct, hidden: set[str]) -> str:
    """The fields that are not what they usually are."""
    shown = [name for name in value.__struct_fields__ if name not in hidden]
    return "".join(
        f", {name} {getattr(value, name)!r}" for name in shown if getattr(value, name) != getattr(plain, name)
    )
