"""What a database must be like after any crash, whoever was writing to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.verify import verify
from headgate.engine import replay
from headgate.engine.recovery import recover
from headgate.ports import JobQuery, JobView, Mark
from headgate.stores.sqlite import SqliteStore
from tests.crash.child import SETTINGS

NOW = 1_700_000_000_000


@dataclass
class Told:
    """What clients were told: every line of it is a promise."""

    submitted: dict[str, str] = field(default_factory=dict)
    """By key: the id that the client was given."""
    completed: set[str] = field(default_factory=set)

    def take(self, lines: list[str]) -> None:
        for line in lines:
            match line.split():
                case ["submitted", key, job_id]:
                    assert self.submitted.setdefault(key, job_id) == job_id, f"{key} was given two jobs"
                case ["completed", job_id]:
                    self.completed.add(job_id)

    def next_number(self, name: str) -> int:
        """The first number of a client's keys that was not acknowledged: it will be sent again."""
        return len([key for key in self.submitted if key.startswith(f"{name}:")])


def check_at_rest(path: Path, told: Told) -> list[JobView]:
    """Open what is left, and check every promise and every invariant; all jobs."""
    store = SqliteStore(path)
    mark = store.open()
    try:
        assert store.check() == []
        jobs = store.find_jobs(JobQuery(order="oldest", limit=1_000_000))
        check_promises(jobs, told)
        state, _ = recover(store, SETTINGS, mark, NOW)
        verify(state)
        check_journal(store, mark)
    finally:
        store.close()
    return jobs


def check_promises(jobs: list[JobView], told: Told) -> None:
    by_id = {view.job.id: view for view in jobs}
    keys = Counter(view.job.key for view in jobs if view.job.key is not None)
    assert [key for key, count in keys.items() if count > 1] == [], "one key, two jobs"
    lost = {key for key, job_id in told.submitted.items() if job_id not in by_id}
    assert lost == set(), "acknowledged submissions were lost"
    undone = {job_id for job_id in told.completed if str(by_id[job_id].state) != "completed"}
    assert undone == set(), "acknowledged completions were lost"


def check_journal(store: SqliteStore, mark: Mark) -> None:
    """No commit is missing or of an earlier owner, and together they make the tables."""
    rows = list(store.journal())
    numbers, epochs = [row.number for row in rows], [row.epoch for row in rows]
    assert numbers == sorted(set(numbers))
    assert epochs == sorted(epochs)
    assert replay.check_journal(store, mark) == []
