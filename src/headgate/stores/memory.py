"""A store in memory: for tests, simulations and work that need not outlive the process.

A `MemoryDisk` is what would survive a crash; a `MemoryStore` is one engine's handle on it. To simulate a restart, make
a new handle on the same disk: what was written but not sealed is gone with the old one, which is deposed.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from headgate.core.states import JobState
from headgate.ports import (
    Batch,
    CommitFailed,
    Deposed,
    DocumentRow,
    EndedJob,
    EndRow,
    EventRow,
    Gone,
    JobQuery,
    JobRow,
    JobView,
    JournalRow,
    Key,
    LeaseRow,
    LiveJob,
    Mark,
    OldEnd,
    RecordRow,
    StatusRow,
    StoreError,
    live_job,
)


class MemoryDisk:
    """The sealed content. Handles in several threads may share it: `lock` guards every look and every change."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.mark = Mark(epoch=0, number=0, seq=0, tokens=0, indexed=0, low_water=0)
        self.jobs: dict[int, JobRow] = {}
        self.seq_of: dict[str, int] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.statuses: dict[int, StatusRow] = {}
        self.leases: dict[int, LeaseRow] = {}
        self.ends: dict[int, EndRow] = {}
        self.documents: dict[tuple[str, str], DocumentRow] = {}
        self.records: dict[tuple[str, int, int], RecordRow] = {}
        self.events: dict[int, dict[int, EventRow]] = {}
        self.journal: dict[int, JournalRow] = {}

    def view(self, seq: int) -> JobView:
        """A job with all that is known about it."""
        job, status, lease, end = self.jobs[seq], self.statuses.get(seq), self.leases.get(seq), self.ends.get(seq)
        if end is not None:
            state = JobState(end.state)
        elif lease is not None:
            state = JobState.LEASED if lease.started_at is None else JobState.RUNNING
        else:
            state = JobState(status.state if status is not None else job.state)
        return JobView(job, state, status, lease, end)

    def apply(self, batch: Batch) -> None:
        """Take in a whole batch."""
        for job in batch.jobs:
            self._put_job(job)
        self.statuses.update((row.seq, row) for row in batch.statuses)
        self.leases.update((row.seq, row) for row in batch.leases)
        self.ends.update((row.seq, row) for row in batch.ends)
        for seq in batch.statuses_gone:
            self.statuses.pop(seq, None)
        for seq in batch.leases_gone:
            self.leases.pop(seq, None)
        for document in batch.documents:
            self._put_document(document)
        self.records.update(((row.kind, row.at, row.number), row) for row in batch.records)
        for event in batch.events:
            self.events.setdefault(event.job_seq, {})[event.number] = event
        if batch.journal:
            self.journal[batch.number] = JournalRow(batch.number, batch.epoch, batch.at, batch.journal)
        if batch.gone is not None:
            self._drop(batch.gone)
        indexed = self.mark.indexed if batch.indexed is None else batch.indexed
        self.mark = Mark(self.mark.epoch, batch.number, batch.seq, batch.tokens, indexed, batch.low_water)

    def _put_job(self, job: JobRow) -> None:
        self.jobs[job.seq] = job
        self.seq_of[job.id] = job.seq
        if job.key is not None:
            self.keys[job.tenant, job.key] = job.seq

    def _put_document(self, document: DocumentRow) -> None:
        if document.body is None:
            self.documents.pop((document.kind, document.id), None)
        else:
            self.documents[document.kind, document.id] = document

    def _drop(self, gone: Gone) -> None:
        for seq in gone.jobs:
            self._drop_job(seq)
        for seq in gone.histories:
            self.events.pop(seq, None)
        for number in gone.journal:
            self.journal.pop(number, None)
        for place in gone.records:
            self.records.pop(place, None)

    def _drop_job(self, seq: int) -> None:
        job = self.jobs.pop(seq, None)
        if job is None:
            return
        del self.seq_of[job.id]
        if job.key is not None and self.keys.get((job.tenant, job.key)) == seq:
            del self.keys[job.tenant, job.key]
        for rows in (self.statuses, self.leases, self.ends, self.events):
            rows.pop(seq, None)


class MemoryStore:
    """One engine's handle on a disk in memory."""

    name = "memory"

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self._epoch: int | None = None
        self._written: list[Batch] = []

    def open(self) -> Mark:
        with self.disk.lock:
            self._written.clear()
            self.disk.mark = self.disk.mark._replace(epoch=self.disk.mark.epoch + 1)
            self._epoch = self.disk.mark.epoch
            return self.disk.mark

    def live_jobs(self) -> Iterator[LiveJob]:
        disk = self.disk
        with disk.lock:
            seqs = sorted(seq for seq in disk.jobs if seq >= disk.mark.low_water and seq not in disk.ends)
            return iter([live_job(disk.jobs[seq], disk.statuses.get(seq), disk.leases.get(seq)) for seq in seqs])

    def recent_ends(self, limit: int) -> list[EndedJob]:
        with self.disk.lock:
            last = heapq.nlargest(limit, self.disk.ends.values(), key=lambda end: (end.ended_at, end.seq))
            return [EndedJob(self.disk.jobs[end.seq], end) for end in reversed(last)]

    def documents(self) -> Iterator[DocumentRow]:
        with self.disk.lock:
            return iter([self.disk.documents[place] for place in sorted(self.disk.documents)])

    def write(self, batch: Batch) -> None:
        self._owned()
        self._written.append(batch)

    def seal(self) -> None:
        with self.disk.lock:
            written, self._written = self._written, []
            self._fence()
            self._refuse_duplicates(written)
            for batch in written:
                self.disk.apply(batch)

    def close(self) -> None:
        self._epoch = None
        self._written.clear()

    def _owned(self) -> int:
        if self._epoch is None:
            raise StoreError("the store is not open")
        return self._epoch

    def _fence(self) -> None:
        epoch = self._owned()
        if epoch != self.disk.mark.epoch:
            self.close()
            raise Deposed(f"the store is at epoch {self.disk.mark.epoch}, this engine is of epoch {epoch}")

    def _refuse_duplicates(self, written: list[Batch]) -> None:
        given: dict[str, int] = {}
        for job in (job for batch in written for job in batch.jobs):
            if given.setdefault(job.id, self.disk.seq_of.get(job.id, job.seq)) != job.seq:
                self.close()
                raise CommitFailed(f"job {job.id} has another submission number already")

    # -- history ----------------------------------------------------------------------------------------------

    def find_jobs(self, query: JobQuery) -> list[JobView]:
        with self.disk.lock:
            found: list[JobView] = []
            for seq in sorted(self.disk.jobs, reverse=query.order == "newest"):
                if len(found) == query.limit:
                    break
                if _behind_cursor(query, seq) and _matches(query, view := self.disk.view(seq)):
                    found.append(view)
            return found

    def get_job(self, job_id: str) -> JobView | None:
        with self.disk.lock:
            seq = self.disk.seq_of.get(job_id)
            return None if seq is None else self.disk.view(seq)

    def states_of(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        with self.disk.lock:
            known = self.disk.seq_of
            return {job_id: self.disk.view(known[job_id]).state for job_id in job_ids if job_id in known}

    def find_keys(self, keys: Iterable[Key]) -> dict[Key, JobRow]:
        with self.disk.lock:
            known, jobs = self.disk.keys, self.disk.jobs
            return {key: jobs[known[key]] for key in keys if key in known}

    def counts(self) -> dict[tuple[JobState, int], int]:
        with self.disk.lock:
            views = map(self.disk.view, self.disk.jobs)
            return dict(Counter((view.state, _class_of(view)) for view in views))

    def events_of(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[EventRow]:
        with self.disk.lock:
            rows = self.disk.events.get(self.disk.seq_of.get(job_id, -1), {})
            return [rows[number] for number in sorted(rows) if number > after][:limit]

    def journal(self, after: int = 0) -> Iterator[JournalRow]:
        with self.disk.lock:
            return iter([self.disk.journal[number] for number in sorted(self.disk.journal) if number > after])

    def entries(self, since: int = 0, until: int | None = None, after: int = 0, limit: int = 1_000) -> list[JournalRow]:
        return list(islice((row for row in self.journal(after) if _within(row.at, since, until)), limit))

    def records(
        self, kind: str, since: int = 0, until: int | None = None, key: str | None = None, limit: int = 1_000,
        *, newest: bool = False,
    ) -> list[RecordRow]:  # fmt: skip
        with self.disk.lock:
            rows = [
                row
                for row in self.disk.records.values()
                if row.kind == kind and row.at >= since and (until is None or row.at < until)
                if key is None or row.key == key
            ]
        return sorted(rows, key=lambda row: (row.at, row.number), reverse=newest)[:limit]

    # -- upkeep -----------------------------------------------------------------------------------------------

    def old_ends(self, before: int, after: tuple[int, int] = (-1, 0), limit: int = 1_000) -> list[OldEnd]:
        with self.disk.lock:
            ends = (end for end in self.disk.ends.values() if after < (end.ended_at, end.seq) and end.ended_at < before)
            old = heapq.nsmallest(limit, ends, key=lambda end: (end.ended_at, end.seq))
            return [self._old_end(end) for end in old]

    def _old_end(self, end: EndRow) -> OldEnd:
        job = self.disk.jobs[end.seq]
        return OldEnd(end.ended_at, end.seq, job.id, job.key is not None, bool(self.disk.events.get(end.seq)))

    def old_entries(self, before: int, limit: int = 1_000) -> list[int]:
        with self.disk.lock:
            journal, indexed = self.disk.journal, self.disk.mark.indexed
            front = takewhile(lambda number: number <= indexed and journal[number].at < before, sorted(journal))
            return list(islice(front, limit))

    def old_records(self, kind: str, before: int, limit: int = 1_000) -> list[tuple[int, int]]:
        with self.disk.lock:
            places = (place[1:] for place in self.disk.records if place[0] == kind and place[1] < before)
            return heapq.nsmallest(limit, places)

    def shrink(self, spare: float) -> bool:  # noqa: ARG002 - there is no file to shrink
        return False

    def backup(self, target: str) -> None:
        raise StoreError(f"a store in memory cannot be copied to {target}")

    def check(self) -> list[str]:
        disk = self.disk
        with disk.lock:
            problems = [
                f"{what} of job {seq}, which does not exist"
                for what, rows in (("status", disk.statuses), ("lease", disk.leases), ("end", disk.ends))
                for seq in sorted(rows.keys() - disk.jobs.keys())
            ]
            problems += [
                f"job {seq} has ended and has a lease" for seq in sorted(disk.ends.keys() & disk.leases.keys())
            ]
            return problems


def _behind_cursor(query: JobQuery, seq: int) -> bool:
    if query.after is None:
        return True
    return seq < query.after if query.order == "newest" else seq > query.after


def _class_of(view: JobView) -> int:
    return view.job.job_class if view.status is None else view.status.job_class


def _within(at: int, since: int | None, until: int | None) -> bool:
    return (since is None or at >= since) and (until is None or at < until)


def _ended_within(end: EndRow | None, since: int | None, until: int | None) -> bool:
    if end is None:
        return since is None and until is None
    return _within(end.ended_at, since, until)


def _matches(query: JobQuery, view: JobView) -> bool:
    job = view.job
    return (
        (not query.states or view.state in query.states)
        and (not query.classes or _class_of(view) in query.classes)
        and (not query.tenants or job.tenant in query.tenants)
        and (not query.types or job.type in query.types)
        and (query.name_contains is None or query.name_contains in job.name)
        and _within(job.created_at, query.created_from, query.created_to)
        and _ended_within(view.end, query.ended_from, query.ended_to)
    )
