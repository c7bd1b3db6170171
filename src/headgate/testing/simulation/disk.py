"""A disk in memory that survives crashes, and a store on it that fails as disks and connections do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import NoReturn

from headgate.core.retention import Retention
from headgate.core.states import JobState
from headgate.engine.replay import Tables
from headgate.ports import (
    Batch,
    CommitFailed,
    Deposed,
    DocumentRow,
    EndedJob,
    EventRow,
    Gone,
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
from headgate.testing.simulation.forgetting import Forgetting
from headgate.testing.simulation.world import World

_SNAPSHOTS = 0.02


class SimDisk:
    """What is durable: only sealed batches get here. Keeps the tables of a few commits for replays from there."""

    def __init__(self, retention: Retention | None = None) -> None:
        self.tables = Tables()
        self.epoch = 0
        self.journal: list[JournalRow] = []
        self.told: list[JournalRow] = []
        """The journal with everything that was deleted from it."""
        self.records: set[tuple[str, int, int]] = set()
        self.histories: dict[int, list[EventRow]] = {}
        self.ids: dict[str, int] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.snapshots: list[Tables] = [Tables()]
        self.forgetting = Forgetting(retention or Retention())
        self.clock: Callable[[], int] = lambda: 0
        """The engine's, by which things come of age."""

    def apply(self, batch: Batch) -> None:
        """Take in a whole batch."""
        self.forgetting.arrives(batch, self.tables)
        if batch.gone is not None:
            self.forgetting.goes(batch.gone, self.clock(), self.tables, self.journal)
            self._drop(batch.gone)
        self.tables.apply(batch)
        self.records.update((row.kind, row.at, row.number) for row in batch.records)
        for row in batch.jobs:
            self.ids[row.id] = row.seq
            if row.key is not None:
                self.keys[row.tenant, row.key] = row.seq
        for event in batch.events:
            self.histories.setdefault(event.job_seq, []).append(event)
        if batch.journal:
            entry = JournalRow(batch.number, batch.epoch, batch.at, batch.journal)
            self.journal.append(entry)
            self.told.append(entry)

    def _drop(self, gone: Gone) -> None:
        tables = self.tables
        for seq in gone.jobs:
            row = tables.jobs.pop(seq, None)
            if row is not None:
                del self.ids[row.id]
                if row.key is not None:
                    del self.keys[row.tenant, row.key]
            for rows in (tables.statuses, tables.leases, tables.ends, self.histories):
                rows.pop(seq, None)
        for seq in gone.histories:
            self.histories.pop(seq, None)
        self.journal = [row for row in self.journal if row.number not in gone.journal]
        self.records -= set(gone.records)

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
    """One engine's handle on the disk. It serves the writer; listings and copies are not simulated."""

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
        disk = self._disk
        places = sorted((end.ended_at, end.seq) for end in disk.tables.ends.values() if end.ended_at < before)
        jobs = [(at, disk.tables.jobs[seq]) for at, seq in places if (at, seq) > after]
        return [
            OldEnd(at, job.seq, job.id, job.key is not None, bool(disk.histories.get(job.seq)))
            for at, job in jobs[:limit]
        ]

    def old_entries(self, before: int, limit: int = 1_000) -> list[int]:
        indexed = self._disk.tables.mark.indexed
        front = takewhile(lambda row: row.number <= indexed and row.at < before, self._disk.journal)
        return [row.number for row in islice(front, limit)]

    def old_records(self, kind: str, before: int, limit: int = 1_000) -> list[tuple[int, int]]:
        return sorted((at, number) for of, at, number in self._disk.records if of == kind and at < before)[:limit]

    def shrink(self, spare: float) -> bool:  # noqa: ARG002 - there is no file to shrink
        return False

    def backup(self, target: str) -> None:
        _not_simulated(target)

    def check(self) -> list[str]:
        _not_simulated()


def _not_simulated(*asked: object) -> NoReturn:
    raise StoreError(f"the simulated store does not answer this: {asked}")
