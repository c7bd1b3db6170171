"""A connection to a server, by the calls of its HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headgate.client.connection import JobInput
from headgate.client.http import Http, segment
from headgate.core.errors import Conflict, InvalidInput
from headgate.core.job_input import parse_job
from headgate.ports import Ids
from headgate.wire import http as w

_ENDED = ("completed", "failed", "expired", "cancelled")


class RemoteConnection:
    """The SDK's calls as requests."""

    def __init__(self, http: Http, ids: Ids, pause: Callable[[float], object]) -> None:
        self._http = http
        self._ids = ids
        self._pause = pause
        self._server_waits = True

    def submit(self, jobs: Sequence[JobInput]) -> list[str]:
        """Take in jobs, all or none. The key makes it safe to send them again when the answer was lost."""
        if not jobs:
            return []
        for job in jobs:
            parse_job(_known_references(job))  # says what is wrong before anything travels
        named = any(job.get("idempotency_key") is not None for job in jobs)
        headers = {} if named else {"idempotency-key": f"sdk-{self._ids.new()}"}
        body = list(jobs) if len(jobs) > 1 else jobs[0]  # of one job there is no array whose length could differ
        return self._http.post("/v2/jobs", body, w.SubmittedOut, headers=headers).ids

    def job(self, job_id: str) -> w.JobOut:
        """A job as it stands."""
        return self._http.get(f"/v2/jobs/{segment(job_id)}", w.JobOut)

    def wait_end(self, job_id: str, within: float) -> bool:
        """Wait until a job has ended. A server that cannot wait for us is asked again and again."""
        if self._server_waits:
            try:
                job = self._http.get(f"/v2/jobs/{segment(job_id)}", w.JobOut, wait=within, wait_s=within)
            except InvalidInput:
                self._server_waits = False
            else:
                return job.state in _ENDED
        left, step = within, 0.01
        while self.job(job_id).state not in _ENDED:
            if left <= 0:
                return False
            self._pause(min(step, left))
            left -= step
            step = min(0.25, step * 1.5)
        return True

    def cancel(self, job_id: str, reason: str) -> None:
        """End a job that has not ended."""
        self._http.post(f"/v2/jobs/{segment(job_id)}/cancel", w.CancelIn(reason), Any)

    def patch(self, job_id: str, changes: Mapping[str, Any]) -> None:
        """Change a job that has not started."""
        self._http.call("PATCH", f"/v2/jobs/{segment(job_id)}", Any, body=dict(changes))

    def events(self, job_id: str) -> list[w.EventOut]:
        """What happened to a job, oldest first."""
        found: list[w.EventOut] = []
        after: int | None = None
        while True:
            page = self._http.get(f"/v2/jobs/{segment(job_id)}/events", w.EventsOut, after=after)
            found += page.events
            if page.next is None:
                return found
            after = page.next

    def explain(self, job_id: str) -> w.ExplainOut:
        """Why a job does not run."""
        return self._http.get(f"/v2/jobs/{segment(job_id)}/explain", w.ExplainOut)

    def logs(self, job_id: str) -> str:
        """What a job printed."""
        found: list[w.LogEntryOut] = []
        while page := self._http.get(
            f"/v2/jobs/{segment(job_id)}/logs", w.LogsOut, after=found[-1].number if found else None
        ).logs:
            found += page
        return "".join(entry.text for entry in found)

    def status(self) -> w.StatusOut:
        """One look at everything."""
        return self._http.get("/v2/status", w.StatusOut)

    def claim(self, job_id: str, within: float) -> w.LeaseOut | None:
        """The lease of an external job, waiting for it if need be; none if there is none in time, or it has ended."""
        asked = w.ClaimIn(worker_id="", job_id=job_id, wait_s=within)
        try:
            return self._http.post("/v2/leases", asked, w.ClaimOut, wait=within).lease
        except Conflict:
            return None

    def start(self, lease: w.LeaseOut) -> None:
        """The holder begins."""
        self._http.post(f"/v2/leases/{segment(lease.lease_id)}/start", w.TokenIn(lease.token), w.BeatOut)

    def beat(self, lease: w.LeaseOut) -> w.BeatOut:
        """The holder is alive."""
        return self._http.post(f"/v2/leases/{segment(lease.lease_id)}/heartbeat", w.TokenIn(lease.token), w.BeatOut)

    def complete(self, lease: w.LeaseOut, result: bytes) -> None:
        """The work is done; `result` is JSON."""
        body = w.CompleteIn(lease.token, msgspec.Raw(result))
        self._http.post(f"/v2/leases/{segment(lease.lease_id)}/complete", body, Any)

    def fail(self, lease: w.LeaseOut, code: str, message: str) -> None:
        """The work failed and is not to be tried again."""
        body = w.FailIn(lease.token, w.ErrorOut(code, message), retry=False)
        self._http.post(f"/v2/leases/{segment(lease.lease_id)}/fail", body, Any)

    def observe(self, latency_s: float | None, error: bool) -> None:
        """A request of the application has ended."""
        self._http.post("/v2/load", w.LoadIn(latency_s=latency_s, error=error), Any)

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()


def _known_references(job: JobInput) -> JobInput:
    given = job.get("dependencies")
    if not isinstance(given, list | tuple):
        return job
    return {**job, "dependencies": [one for one in given if not (isinstance(one, str) and one[:1] == "#")]}
