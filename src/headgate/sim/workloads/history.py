"""Our own history as a workload: the jobs of a store, or of a range of time in it, through the Store protocol."""

from __future__ import annotations

import msgspec

from headgate.core.job import JobSpec
from headgate.core.states import JobState
from headgate.ports import JobQuery, JobView, Store
from headgate.sim.workloads.model import Kinds, Problems, SimJob, Workload

_PAGE = 1_000
_spec = msgspec.msgpack.Decoder(JobSpec)


def read_history(
    store: Store, *, since: int | None = None, until: int | None = None, name: str = "history"
) -> Workload:
    """Jobs submitted in the range. How long they run is what the last attempt took; what never ran is a problem."""
    problems, kinds, jobs = Problems(), Kinds(), []
    after: int | None = None
    while True:
        query = JobQuery(created_from=since, created_to=until, order="oldest", after=after, limit=_PAGE)
        page = store.find_jobs(query)
        for view in page:
            job = _job(view, kinds, problems)
            if job is not None:
                jobs.append(job)
        if len(page) < _PAGE:
            break
        after = page[-1].job.seq
    return Workload(name, _whole(jobs, problems), problems=problems)


def _job(view: JobView, kinds: Kinds, problems: Problems) -> SimJob | None:
    row, end = view.job, view.end
    if end is None or end.started_at is None:
        problems.add("never ran", row.seq, f"job {row.id} is {view.state} and never ran; left out")
        return None
    run = max(0, end.ended_at - end.started_at)
    spec = _spec.decode(row.spec)
    fails = max(0, end.attempt - 1)
    if view.state is not JobState.COMPLETED:
        # It failed for good: every attempt that it may have fails here too.
        fails = spec.kind.retry.attempts
    spec = msgspec.structs.replace(spec, kind=kinds.of(spec.kind), idempotency_key=None)
    return SimJob(row.id, row.created_at, run, spec, fails)


def _whole(jobs: list[SimJob], problems: Problems) -> list[SimJob]:
    """A job that waited for one outside the range does not wait for it here."""
    known = {job.id for job in jobs}
    kept = []
    for place, job in enumerate(jobs):
        inside = tuple(parent for parent in job.spec.dependencies if parent in known)
        if len(inside) < len(job.spec.dependencies):
            problems.add("outside", place, f"job {job.id} waited for a job outside the range; it does not here")
            job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, dependencies=inside))  # noqa: PLW2901
        kept.append(job)
    return kept
