"""A connection to an engine in this process, or in the one that owns the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate import views
from headgate.client.connection import JobInput
from headgate.core import commands as c
from headgate.core.errors import InvalidJob
from headgate.core.events import Failure
from headgate.core.job_input import LIMITS, pairs, parse_job
from headgate.core.quantities import instant
from headgate.engine import questions as q
from headgate.engine.local import Face
from headgate.engine.working import LOG, WaitLease
from headgate.load.api import observe
from headgate.ports import Ids
from headgate.wire.http import BeatOut, EventOut, ExplainOut, JobOut, LeaseOut, StatusOut

_PAGE = 1_000


class EmbeddedConnection:
    """The SDK's calls as commands and questions."""

    def __init__(self, face: Face, ids: Ids) -> None:
        self.face = face
        self._ids = ids

    def submit(self, jobs: Sequence[JobInput]) -> list[str]:
        """Take in jobs, all or none; their ids in the order given. `#0` among dependencies is the first of them."""
        ids = [self._ids.new() for _ in jobs]
        new = tuple(c.NewJob(ids[place], parse_job(_resolved(job, ids))) for place, job in enumerate(jobs))
        return list(self.face.do(c.Submit(new)).ids) if new else []

    def job(self, job_id: str) -> JobOut:
        """A job as it stands."""
        return views.job_out(self.face.ask(q.GetJob(job_id)))

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended; false if it has not in time."""
        return self.face.wait_end(job_id, within)

    def cancel(self, job_id: str, reason: str) -> None:
        """End a job that has not ended."""
        self.face.do(c.Cancel(job_id, reason))

    def patch(self, job_id: str, changes: Mapping[str, Any]) -> None:
        """Change a job that has not started."""
        unknown = set(changes) - {"priority", "rank", "labels", "not_before"}
        if unknown:
            raise InvalidJob("cannot be changed", field=min(unknown))
        fields = dict(changes)
        if "priority" in fields:
            fields["priority"] = parse_job({"priority": fields["priority"]}).kind.priority
        if "labels" in fields:
            fields["labels"] = pairs(fields["labels"], "labels", LIMITS)
        if fields.get("not_before") is not None:
            fields["not_before"] = instant(fields["not_before"], "not_before")
        self.face.do(c.Patch(job_id, **fields))

    def events(self, job_id: str) -> list[EventOut]:
        """What happened to a job, oldest first."""
        found = self.face.ask(q.GetHistory(job_id, limit=_PAGE))
        page = found
        while len(page) == _PAGE:
            page = self.face.ask(q.GetHistory(job_id, page[-1].number, _PAGE))
            found += page
        return [views.event_out(entry) for entry in found]

    def explain(self, job_id: str) -> ExplainOut:
        """Why a job does not run."""
        return views.explain_out(self.face.ask(q.Explain(job_id)))

    def logs(self, job_id: str) -> str:
        """What a job printed."""
        self.face.ask(q.GetJob(job_id))
        rows = self.face.ask(q.GetRecords(LOG, key=job_id, limit=_PAGE))
        return "".join(row.body.decode("utf-8", "replace") for row in rows)

    def status(self) -> StatusOut:
        """One look at everything."""
        return views.status_out(self.face.ask(q.GetStatus()))

    def claim(self, job_id: str, within: float) -> LeaseOut | None:
        """The lease of an external job, waiting for it if need be; none if there is none in time."""
        lease = self.face.wait_lease(WaitLease(job_id, within))
        return None if lease is None else views.lease_out(lease)

    def start(self, lease: LeaseOut) -> None:
        """The holder begins."""
        self.face.do(c.Start(lease.lease_id, lease.token))

    def beat(self, lease: LeaseOut) -> BeatOut:
        """The holder is alive."""
        beat = self.face.do(c.Heartbeat(lease.lease_id, lease.token))
        return views.beat_out(beat)

    def complete(self, lease: LeaseOut, result: bytes) -> None:
        """The work is done; `result` is JSON."""
        self.face.do(c.Complete(lease.lease_id, lease.token, result))

    def fail(self, lease: LeaseOut, code: str, message: str) -> None:
        """The work failed and is not to be tried again."""
        self.face.do(c.Fail(lease.lease_id, lease.token, Failure(code, message), retry=False))

    def observe(self, latency_s: float | None, error: bool) -> None:
        """A request of the application has ended: the sampler of this process reports it."""
        observe(latency_s, error)

    def close(self) -> None:
        """Let go of the engine."""
        self.face.stop()


def _resolved(job: JobInput, ids: list[str]) -> JobInput:
    given = job.get("dependencies")
    if not isinstance(given, list | tuple) or not any(isinstance(one, str) and one[:1] == "#" for one in given):
        return job
    return {**job, "dependencies": [_reference(one, ids) for one in given]}


def _reference(one: Any, ids: list[str]) -> Any:
    if not (isinstance(one, str) and one[:1] == "#"):
        return one
    if not one[1:].isdigit() or int(one[1:]) >= len(ids):
        raise InvalidJob(f"{one!r} is none of the jobs submitted together", field="dependencies")
    return ids[int(one[1:])]
