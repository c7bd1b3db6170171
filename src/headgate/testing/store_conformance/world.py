"""A seeded crowd of jobs in every state, and the plainest possible answers to compare a store's with."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from headgate.core.states import TERMINAL, JobState
from headgate.ports import EndRow, JobQuery, JobRow, JobView, LeaseRow, StatusRow
from headgate.testing.store_conformance.home import end_row, job_row, lease_row, status_row

TENANTS = ("a", "b", "'; --", "ä")
TYPES = ("generic", "mail", "mail%")
NAMES = ("nightly report", "Report", "100% sure", "under_score", "")


class World:
    """Rows by submission number, made from a seed."""

    def __init__(self, seed: int, size: int) -> None:
        self.chance = Random(seed)
        self.jobs: dict[int, JobRow] = {}
        self.statuses: dict[int, StatusRow] = {}
        self.leases: dict[int, LeaseRow] = {}
        self.ends: dict[int, EndRow] = {}
        for seq in range(1, size + 1):
            self._add(seq)

    def _add(self, seq: int) -> None:
        draw = self.chance
        self.jobs[seq] = job_row(
            seq,
            id=f"{draw.randrange(10**6):06}-{seq}",
            created_at=draw.randrange(1_000),
            state=draw.choice(["blocked", "queued"]),
            tenant=draw.choice(TENANTS),
            type=draw.choice(TYPES),
            name=draw.choice(NAMES),
            job_class=draw.randrange(4),
            key=f"key {seq}" if draw.random() < 0.3 else None,
        )
        fate = draw.choice(["as submitted", "changed", "leased", "running", "ended", "ended"])
        if fate == "changed" or (fate != "as submitted" and draw.random() < 0.3):
            self.statuses[seq] = status_row(seq, state=draw.choice(["blocked", "queued"]), job_class=draw.randrange(4))
        if fate == "ended":
            self.statuses.pop(seq, None)
            state = str(draw.choice(sorted(TERMINAL)))
            self.ends[seq] = end_row(seq, state=state, ended_at=draw.randrange(1_000))
        elif fate in {"leased", "running"}:
            self.leases[seq] = lease_row(seq, started_at=5 if fate == "running" else None)

    def content(self) -> dict[str, Any]:
        """All rows, for one batch."""
        return {
            "jobs": list(self.jobs.values()),
            "statuses": list(self.statuses.values()),
            "leases": list(self.leases.values()),
            "ends": list(self.ends.values()),
        }

    def view(self, seq: int) -> JobView:
        """What a store should say about a job."""
        return JobView(
            self.jobs[seq], self.state(seq), self.statuses.get(seq), self.leases.get(seq), self.ends.get(seq)
        )

    def state(self, seq: int) -> JobState:
        """An end counts more than a lease, a lease more than a status, a status more than the job as submitted."""
        if seq in self.ends:
            return JobState(self.ends[seq].state)
        if seq in self.leases:
            return JobState.LEASED if self.leases[seq].started_at is None else JobState.RUNNING
        return JobState(self.statuses[seq].state if seq in self.statuses else self.jobs[seq].state)

    def job_class(self, seq: int) -> int:
        """The class as it now is."""
        return self.statuses[seq].job_class if seq in self.statuses else self.jobs[seq].job_class

    def counts(self) -> dict[tuple[JobState, int], int]:
        """How many jobs there are by state and class."""
        return dict(Counter((self.state(seq), self.job_class(seq)) for seq in self.jobs))

    def find(self, query: JobQuery) -> list[JobView]:
        """What a store should answer."""
        seqs = [seq for seq in self.jobs if self._wanted(seq, query)]
        if query.order == "newest":
            seqs = [seq for seq in reversed(seqs) if query.after is None or seq < query.after]
        else:
            seqs = [seq for seq in seqs if query.after is None or seq > query.after]
        return [self.view(seq) for seq in seqs[: query.limit]]

    def _wanted(self, seq: int, query: JobQuery) -> bool:
        job, end = self.jobs[seq], self.ends.get(seq)
        conditions = [
            not query.states or self.state(seq) in query.states,
            not query.classes or self.job_class(seq) in query.classes,
            not query.tenants or job.tenant in query.tenants,
            not query.types or job.type in query.types,
            query.name_contains is None or query.name_contains in job.name,
            query.created_from is None or job.created_at >= query.created_from,
            query.created_to is None or job.created_at < query.created_to,
            query.ended_from is None or (end is not None and end.ended_at >= query.ended_from),
            query.ended_to is None or (end is not None and end.ended_at < query.ended_to),
        ]
        return all(conditions)

    def question(self) -> JobQuery:
        """A random query; each filter is there about every third time."""
        draw = self.chance
        fields: dict[str, Any] = {
            "states": tuple(draw.sample(list(JobState), draw.randint(1, 4))),
            "classes": tuple(draw.sample(range(4), draw.randint(1, 3))),
            "tenants": tuple(draw.sample([*TENANTS, "nobody"], draw.randint(1, 3))),
            "types": tuple(draw.sample(TYPES, draw.randint(1, 2))),
            "name_contains": draw.choice(["report", "eport", "%", "_", "", "'"]),
            "created_from": draw.randrange(1_000),
            "created_to": draw.randrange(1_000),
            "ended_from": draw.randrange(1_000),
            "ended_to": draw.randrange(1_000),
            "after": draw.choice(list(self.jobs)),
        }
        chosen = {name: value for name, value in fields.items() if draw.random() < 0.3}
        return JobQuery(**chosen, order=draw.choice(["newest", "oldest"]), limit=draw.choice([1, 7, 1_000]))
