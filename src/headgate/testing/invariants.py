"""What should hold whatever the context is: ready-made sentences for `check_policy`.

An invariant is a function of a `Trial` that yields complaints; its name, read as a sentence, is what a failure says.
The engine enforces the safe ones anyway: a policy that breaks them is refused, so it wastes its cycles.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.policy import deltas as d
from headgate.policy.verdict import FailureKind
from headgate.testing.trial import Trial


def never_dispatches_to_a_busy_worker(trial: Trial) -> Iterator[str]:
    """A worker that takes a job is ready and has a slot left, and suits the job."""
    for step in trial.dispatches():
        if step.worker_id is not None:
            why = step.before.closed(step.worker_id) or step.before.unsuited(step.job, step.worker_id)
            if why:
                yield f"{step}, which {why}"


def never_dispatches_a_job_twice(trial: Trial) -> Iterator[str]:
    """A job that was given away is gone."""
    for step in trial.dispatches():
        if step.job.id not in step.before.queued:
            yield f"{step}, though it was given away before"


def never_exceeds_a_workers_free_resources(trial: Trial) -> Iterator[str]:
    """Memory, VRAM, slots and any other resource suffice for what is put on a worker."""
    for step in trial.dispatches():
        if step.worker_id is not None:
            for lack in step.before.lacking(step.job, step.worker_id):
                yield f"{step}: it takes {lack}"


def never_exceeds_free_units(trial: Trial) -> Iterator[str]:
    """The shared capacity suffices for every dispatch."""
    for step in trial.dispatches():
        if step.before.over_units(step.job):
            yield f"{step}: it takes {step.job.units:g} units of {step.before.free_units:g} free"


def respects_quotas(trial: Trial) -> Iterator[str]:
    """No tenant gets more than it may have."""
    for step in trial.dispatches():
        for over in step.before.over_quota(step.job):
            yield f"{step}: that makes {over}"


def always_decides_within_the_limit(trial: Trial) -> Iterator[str]:
    """The policy answers in time, and does not die of it."""
    if trial.verdict.failure in (FailureKind.TIMEOUT, FailureKind.MEMORY, FailureKind.DEATH):
        yield trial.verdict.message


def serves_a_high_class_before_a_lower_one_when_both_fit(trial: Trial) -> Iterator[str]:
    """Nobody is overtaken by a lower class; backfill, which the platform policy does, breaks this on purpose."""
    for step in trial.dispatches():
        for job in step.before.queued.values():
            place = step.before.place_for(job) if job.class_index < step.job.class_index else None
            if place is not None:
                yield f"{step}, while {job.id} ({d.CLASSES[job.class_index]}) fits on {place}"


def waits_only_if_nothing_fits(trial: Trial) -> Iterator[str]:
    """Work conserving: nothing idles while a job could run; reservations and holds break this on purpose."""
    if not trial.waited:
        return
    after = trial.after()
    for job in after.queued.values():
        place = after.place_for(job)
        if place is not None:
            yield f"it waits, while {job.id} ({d.CLASSES[job.class_index]}) fits on {place}"


SAFETY = (
    never_dispatches_to_a_busy_worker,
    never_dispatches_a_job_twice,
    never_exceeds_a_workers_free_resources,
    never_exceeds_free_units,
    respects_quotas,
    always_decides_within_the_limit,
)
"""What every policy should keep to."""
