"""Replay: the tables rebuilt from the journal alone, from the beginning or on top of the tables at any commit.

The journal leaves out what stands once in rows that never change: a job's specification in its row, its result in the
row of its end. Everything else has to come out of the events again, row for row, or something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from headgate.core import events as e
from headgate.core.apply import apply
from headgate.core.errors import HeadgateError
from headgate.core.fingerprint import digest
from headgate.core.job import JobSpec
from headgate.core.lease import number_of
from headgate.core.settings import Settings
from headgate.engine.recovery import recover
from headgate.engine.rows import JOB_FIELD
from headgate.ports import (
    Batch,
    DocumentRow,
    EndedJob,
    EndRow,
    JobQuery,
    JobRow,
    JournalRow,
    LeaseRow,
    LiveJob,
    Mark,
    StatusRow,
    Store,
    live_job,
)

EMPTY = Mark(epoch=0, number=0, seq=0, tokens=0, indexed=0, low_water=0)
_EVERYTHING = 2**31 - 1
_ROWLESS = (e.PoolChanged, e.PoolRemoved)
"""Durable events that leave no row and rest on reports, which the journal does not keep."""
_spec = msgspec.msgpack.Decoder(JobSpec).decode


class JournalBroken(HeadgateError):
    """The journal does not fit the tables that it is replayed on."""


class Tables:
    """The rows that the journal can rebuild, as of one commit."""

    def __init__(self, mark: Mark = EMPTY) -> None:
        self.mark = mark
        self.jobs: dict[int, JobRow] = {}
        self.statuses: dict[int, StatusRow] = {}
        self.leases: dict[int, LeaseRow] = {}
        self.ends: dict[int, EndRow] = {}
        self.places: dict[tuple[str, str], DocumentRow] = {}
        """Documents by kind and id."""

    @classmethod
    def of(cls, store: Store, mark: Mark) -> Tables:
        """Everything that a store holds, as its own questions tell it."""
        tables = cls(mark)
        for job, _, status, lease, end in store.find_jobs(JobQuery(order="oldest", limit=_EVERYTHING)):
            tables.jobs[job.seq] = job
            if end is not None:
                tables.ends[job.seq] = end
            if status is not None:
                tables.statuses[job.seq] = status
            if lease is not None:
                tables.leases[job.seq] = lease
        tables.places = {(row.kind, row.id): row for row in store.documents()}
        return tables

    def copy(self) -> Tables:
        """The same rows, in dictionaries of their own."""
        twin = Tables(self.mark)
        twin.jobs, twin.statuses, twin.leases = dict(self.jobs), dict(self.statuses), dict(self.leases)
        twin.ends, twin.places = dict(self.ends), dict(self.places)
        return twin

    def apply(self, batch: Batch) -> None:
        """Take in the rows of one commit."""
        self.jobs.update((row.seq, row) for row in batch.jobs)
        self.statuses.update((row.seq, row) for row in batch.statuses)
        self.leases.update((row.seq, row) for row in batch.leases)
        self.ends.update((row.seq, row) for row in batch.ends)
        for seq in batch.statuses_gone:
            self.statuses.pop(seq, None)
        for seq in batch.leases_gone:
            self.leases.pop(seq, None)
        for row in batch.documents:
            if row.body is None:
                self.places.pop((row.kind, row.id), None)
            else:
                self.places[row.kind, row.id] = row
        indexed = self.mark.indexed if batch.indexed is None else batch.indexed
        self.mark = Mark(batch.epoch, batch.number, batch.seq, batch.tokens, indexed, batch.low_water)

    # -- what recovery asks of a store --------------------------------------------------------------------------

    def live_jobs(self) -> Iterator[LiveJob]:
        """All jobs that have not ended, in order of submission."""
        for seq in sorted(seq for seq in self.jobs if seq >= self.mark.low_water and seq not in self.ends):
            yield live_job(self.jobs[seq], self.statuses.get(seq), self.leases.get(seq))

    def recent_ends(self, limit: int) -> list[EndedJob]:
        """The last jobs that ended, oldest end first."""
        last = sorted(self.ends.values(), key=lambda end: (end.ended_at, end.seq))[max(0, len(self.ends) - limit) :]
        return [EndedJob(self.jobs[end.seq], end) for end in last]

    def documents(self) -> Iterator[DocumentRow]:
        """All documents."""
        return iter([self.places[place] for place in sorted(self.places)])


def replay(base: Tables, journal: Iterable[JournalRow], content: Tables) -> Tables:
    """The tables after the journal's commits, on top of those at the commit before them.

    `content` is where specifications and results stand. Jobs whose rows it no longer has were deleted for their age
    and are left out. `JournalBroken` says at which commit the journal does not fit.
    """
    run = _Replay(base, content)
    for row in journal:
        try:
            run.commit(row)
        except (HeadgateError, LookupError, ValueError, msgspec.MsgspecError) as error:
            raise JournalBroken(f"commit {row.number} cannot be replayed: {error!r}", number=row.number) from error
    return run.tables


def differences(rebuilt: Tables, stored: Tables) -> list[str]:
    """Where rebuilt tables and stored ones disagree, one sentence each."""
    pairs: list[tuple[str, Mapping[Any, Any], Mapping[Any, Any]]] = [
        ("job", rebuilt.jobs, stored.jobs),
        ("status", rebuilt.statuses, stored.statuses),
        ("lease", rebuilt.leases, stored.leases),
        ("end", rebuilt.ends, stored.ends),
        ("document", rebuilt.places, stored.places),
    ]
    found = [
        f"{name} {key}: the journal gives {mine.get(key)}, the store holds {theirs.get(key)}"
        for name, mine, theirs in pairs
        for key in sorted({*mine, *theirs})
        if not _same_row(mine.get(key), theirs.get(key))
    ]
    for field in ("seq", "tokens", "low_water"):
        mine, theirs = getattr(rebuilt.mark, field), getattr(stored.mark, field)
        if rebuilt.mark.number and mine != theirs:
            found.append(f"{field}: the journal gives {mine}, the store holds {theirs}")
    return found


def _same_row(mine: tuple[Any, ...] | None, theirs: tuple[Any, ...] | None) -> bool:
    """Equal, or equal but for fields that came with a later version than the one that wrote the row."""
    if mine == theirs or mine is None or theirs is None:
        return mine == theirs
    return all(a == b or (type(a) is type(b) is bytes and _grown(a, b)) for a, b in zip(mine, theirs, strict=True))


def _grown(mine: bytes, theirs: bytes) -> bool:
    try:
        return _covers(msgspec.msgpack.decode(mine), msgspec.msgpack.decode(theirs))
    except msgspec.DecodeError:
        return False


def _covers(new: Any, old: Any) -> bool:
    if isinstance(new, list) and isinstance(old, list):
        return len(old) <= len(new) and all(map(_covers, new, old))
    if isinstance(new, dict) and isinstance(old, dict):
        return old.keys() <= new.keys() and all(_covers(new[name], old[name]) for name in old)
    return bool(new == old)


def check_journal(store: Store, mark: Mark) -> list[str]:
    """Replay a store's whole journal and say where its tables disagree with it; empty if nowhere."""
    stored = Tables.of(store, mark)
    return differences(replay(Tables(), store.journal(), stored), stored)


class _Replay:
    def __init__(self, base: Tables, content: Tables) -> None:
        self.tables = base.copy()
        self._content = content
        self._gone: set[str] = set()
        settings = Settings(retain_finished=_EVERYTHING)
        self._state, self._changes = recover(self.tables, settings, base.mark, now=0)

    def commit(self, row: JournalRow) -> None:
        state = self._state
        state.epoch = row.epoch
        for slim in e.decode(row.events):
            event = self._whole(slim)
            if event is not None:
                apply(state, event)
                self._changes.note([event], state)
        self.tables.apply(self._changes.take(state, row.number, row.at))

    def _whole(self, event: e.Event) -> e.Event | None:
        """The event with the content that stands elsewhere; none if it has no effect on any row that is left."""
        if isinstance(event, _ROWLESS):
            return None
        if isinstance(event, e.TenantRemoved):
            self._state.tenant_named(event.id)  # it may have been known by jobs that are no longer there
        if isinstance(event, e.JobSubmitted):
            return self._with_spec(event)
        field = JOB_FIELD.get(type(event))
        if field is not None and getattr(event, field) in self._gone:
            self._leave_out(event)
            return None
        return self._with_result(event) if isinstance(event, e.JobCompleted) else event

    def _leave_out(self, event: e.Event) -> None:
        """Of a deleted job nothing is left but the number of its lease: it is never given out again."""
        if isinstance(event, e.LeaseGranted):
            self._state.tokens = max(self._state.tokens, number_of(event.token))

    def _with_spec(self, event: e.JobSubmitted) -> e.JobSubmitted | None:
        row = self._content.jobs.get(event.seq)
        if row is None:
            self._gone.add(event.id)
            self._state.seq = event.seq
            self._changes.low_water.ended(event.seq)  # only what has ended is deleted
            return None
        self._gone.discard(event.id)  # the job of that id that was deleted is not this one
        return msgspec.structs.replace(event, spec=_spec(row.spec))

    def _with_result(self, event: e.JobCompleted) -> e.JobCompleted:
        end = self._content.ends.get(self._state.jobs[event.job_id].seq)
        result = b"" if end is None or end.result is None else end.result
        if end is not None and digest(result) != event.digest:
            raise JournalBroken(f"the result of job {event.job_id} is not the one that was committed")
        return msgspec.structs.replace(event, result=result)
