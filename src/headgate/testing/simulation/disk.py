"""A disk in memory that survives crashes, and a store on it that fails as disks and connections do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

from headgate.core.states import JobState
from headgate.engine.replay import Tables
from headgate.ports import (
    Batch,
    CommitFailed,
    Deposed,
    DocumentRow,
    EndedJob,
    EventRow,
    JobQuery,
    JobRow,
    JobView,
    JournalRow,
    Key,
    LiveJob,
    Mark,
    OldEnd,
    RecordRow,
    StoreError,
    StoreUnavailable,
)
from headgate.testing.simulation.faults import Faults
from headgate.testing.simulation.world import World

_SNAPSHOTS = 0.02


class SimDisk:
    """What is durable: only sealed batches get here. Keeps the tables of a few commits for replays from there."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.epoch = 0
        self.journal: list[JournalRow] = []
        self.histories: dict[int, list[EventRow]] = {}
        self.ids: dict[str, int] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.snapshots: list[Tables] = [Tables()]

    def apply(self, batch: Batch) -> None:
        """Take in a whole batch."""
        self.tables.apply(batch)
        for row in batch.jobs:
            self.ids[row.id] = row.seq
            if row.key is not None:
                self.keys[row.tenant, row.key] = row.seq
        for event in batch.events:
            self.histories.setdefault(event.job_seq, []).append(event)
        if batch.journal:
            self.journal.append(JournalRow(batch.number, batch.epoch, batch.at, batch.journal))

    def view(self, seq: int) -> JobView:
        """A job with what became of it."""
        tables = self.tables
        job, status = tables.jobs[seq], tables.statuses.get(seq)
        lease, end = tables.leases.get(seq), tables.ends.get(seq)
        if end is not None:
            state = JobState(end.state)
        elif lease is not None:
            state = JobState.LEASED if lease.started_at is None else JobState.RUNNING
        else:
            state = JobState(job.state if status is None else status.state)
        return JobView(job, state, status, lease, end)


class SimStore:
    """One engine's handle on the disk. It serves the writer; listings and upkeep are not simulated."""

    name = "simulated disk"

    def __init__(self, world: World, disk: SimDisk, faults: Faults) -> None:
        self._world = world
        self._disk = disk
        self._faults = faults
        self._epoch: int | None = None
        self._written: Batch | None = None
        self.injected = 0
        """How often it has failed on purpose."""

    def open(self) -> Mark:
        if self._world.strikes("open failed", self._faults.open_fails):
            self.injected += 1
            raise StoreUnavailable("the disk does not answer")
        self._disk.epoch += 1
        self._epoch = self._disk.epoch
        self._written = None
        return self._disk.tables.mark._replace(epoch=self._epoch)

    def live_jobs(self) -> Iterator[LiveJob]:
        return self._disk.tables.live_jobs()

    def recent_ends(self, limit: int) -> list[EndedJob]:
        return self._disk.tables.recent_ends(limit)

    def documents(self) -> Iterator[DocumentRow]:
        return self._disk.tables.documents()

    def write(self, batch: Batch) -> None:
        if self._epoch is None or self._written is not None:
            raise StoreError("the store is not open, or has an open transaction")
        self._maybe_fail("write failed", self._faults.write_fails, "no space is left on the disk")
        self._written = batch

    def seal(self) -> None:
        batch, self._written = self._written, None
        if batch is None:
            raise StoreError("nothing was written")
        if self._epoch != self._disk.epoch:
            raise Deposed(f"the store is at epoch {self._disk.epoch}, this engine is of epoch {self._epoch}")
        self._maybe_fail("seal failed", self._faults.seal_fails, "the disk did not sync")
        taken = [row.id for row in batch.jobs if self._disk.ids.get(row.id, row.seq) != row.seq]
        if taken:
            raise CommitFailed(f"job {taken[0]} has another submission number already")
        self._disk.apply(batch)
        if self._world.odds(_SNAPSHOTS):
            self._disk.snapshots.append(self._disk.tables.copy())
        self._maybe_fail("seal unknown", self._faults.seal_unknown, "the connection went away during the commit")

    def _maybe_fail(self, fault: str, share: float, why: str) -> None:
        if self._world.strikes(fault, share):
            self.injected += 1
            self._epoch = None
            self._world.note(f"disk: {why}")
            raise CommitFailed(why)

    def close(self) -> None:
        self._epoch = None
        self._written = None

    # -- history ------------------------------------------------------------------------------------------------

    def get_job(self, job_id: str) -> JobView | None:
        seq = self._disk.ids.get(job_id)
        return None if seq is None else self._disk.view(seq)

    def states_of(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        known = self._disk.ids
        return {job_id: self._disk.view(known[job_id]).state for job_id in job_ids if job_id in known}

    def find_keys(self, keys: Iterable[Key]) -> dict[Key, JobRow]:
        known, jobs = self._disk.keys, self._disk.tables.jobs
        return {key: jobs[known[key]] for key in keys if key in known}

    def events_of(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[EventRow]:
        rows = self._disk.histories.get(self._disk.ids.get(job_id, 0), [])
        return [row for row in rows if row.number > after][:limit]

    def journal(self, after: int = 0) -> Iterator[JournalRow]:
        return iter([row for row in self._disk.journal if row.number > after])

    def find_jobs(self, query: JobQuery) -> list[JobView]:
        _not_simulated(query)

    def counts(self) -> dict[tuple[JobState, int], int]:
        _not_simulated()

    def entries(self, since: int = 0, until: int | None = None, after: int = 0, limit: int = 1_000) -> list[JournalRow]:
        _not_simulated(since, until, after, limit)

    def records(
        self, kind: str, since: int = 0, until: int | None = None, key: str | None = None, limit: int = 1_000,
        *, newest: bool = False,
    ) -> list[RecordRow]:  # fmt: skip
        _not_simulated(kind, since, until, key, limit, newest)

    def old_ends(self, before: int, after: tuple[int, int] = (-1, 0), limit: int = 1_000) -> list[OldEnd]:
        _not_simulated(before, after, limit)

    def old_entries(self, before: int, limit: int = 1_000) -> list[int]:
        _not_simulated(before, limit)

    def old_records(self, kind: str, before: int, limit: int = 1_000) -> list[tuple[int, int]]:
        _not_simulated(kind, before, limit)

    def shrink(self, spare: float) -> bool:
        _not_simulated(spare)

    def backup(self, target: str) -> None:
        _not_simulated(target)

    def check(self) -> list[str]:
        _not_simulated()


def _not_simulated(*asked: object) -> NoReturn:
    raise StoreError(f"the simulated store does not answer this: {asked}")
