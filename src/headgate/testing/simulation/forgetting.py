"""What retention may delete, said once more and apart from the engine: every deletion is held against it as it lands.

The engine's own clock counts: a clock that is put ahead makes everything older.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from headgate.core.job import JobSpec
from headgate.core.retention import Retention
from headgate.engine.replay import Tables
from headgate.ports import Batch, EndRow, Gone, JobRow, JournalRow
from headgate.testing.simulation.world import Violation

_AGES = {"decision": "decisions", "load": "load", "audit": "audit", "log": "logs"}
read_spec = msgspec.msgpack.Decoder(JobSpec).decode


class Forgetting:
    """What was deleted, and whether that was right."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self.deleted: dict[int, tuple[JobRow, EndRow]] = {}
        """By submission number, as they stood when they went."""
        self.reborn: set[str] = set()
        """Ids that were deleted and came again: a message that was repeated after all that time."""
        self.counts: Counter[str] = Counter()
        self._specs: dict[int, JobSpec] = {}
        self._ended_in: dict[int, int] = {}
        self._gone_ids: set[str] = set()

    # -- what comes in ------------------------------------------------------------------------------------------

    def arrives(self, batch: Batch, tables: Tables) -> None:
        """Rows are about to be taken in: what they rest on must still be there."""
        there = {row.id for row in (*tables.jobs.values(), *batch.jobs)}
        keys = {(row.tenant, row.key): row for row in tables.jobs.values() if row.key is not None}
        for row in batch.jobs:
            spec = self._specs[row.seq] = read_spec(row.spec)
            lost = [name for name in spec.dependencies if name not in there]
            if lost:
                raise Violation(f"job {row.id} depends on {lost[0]}, which was deleted")
            other = None if row.key is None else keys.get((row.tenant, row.key))
            if other is not None and other.seq != row.seq:
                raise Violation(f"job {row.id} took the key {row.key}, which is still that of job {other.id}")
            if row.id in self._gone_ids:
                self.reborn.add(row.id)
        self._ended_in.update((end.seq, batch.number) for end in batch.ends)

    # -- what goes ----------------------------------------------------------------------------------------------

    def goes(self, gone: Gone, at: int, tables: Tables, journal: Iterable[JournalRow]) -> None:
        """Rows are about to be deleted at this time: nobody may need them."""
        needed = self._needed(tables)
        for seq in gone.jobs:
            self._job_goes(seq, at, tables, needed)
        for seq in gone.histories:
            end = tables.ends.get(seq)
            if end is None:
                raise Violation(f"the history of live job {seq} was deleted")
            self._of_age(f"the history of job {seq}", end.ended_at, at, self._retention.events)
        self._entries_go(gone.journal, at, tables, journal)
        for kind, written, number in gone.records:
            age: int | None = getattr(self._retention, _AGES[kind])
            self._of_age(f"record {number} of {kind}", written, at, age)
        for name in gone.__struct_fields__:
            self.counts[f"deleted {name}"] += len(getattr(gone, name))

    def _needed(self, tables: Tables) -> dict[str, str]:
        """Jobs that a live one depends on, and which."""
        live = [row for seq, row in tables.jobs.items() if seq not in tables.ends]
        return {name: row.id for row in live for name in self._specs[row.seq].dependencies}

    def _job_goes(self, seq: int, at: int, tables: Tables, needed: dict[str, str]) -> None:
        row, end = tables.jobs.get(seq), tables.ends.get(seq)
        if row is None:
            return
        if end is None:
            raise Violation(f"job {row.id} was deleted and had not ended")
        if row.id in needed:
            raise Violation(f"job {row.id} was deleted while job {needed[row.id]} depends on it")
        if self._ended_in[seq] > tables.mark.indexed:
            raise Violation(f"job {row.id} was deleted before its end was in its history")
        ages = self._retention
        age = ages.jobs if row.key is None or ages.jobs is None else max(ages.jobs, ages.keys)
        self._of_age(f"job {row.id}", end.ended_at, at, age)
        self.deleted[seq] = (row, end)
        self._gone_ids.add(row.id)

    def _entries_go(self, numbers: list[int], at: int, tables: Tables, journal: Iterable[JournalRow]) -> None:
        entries = {row.number: row for row in journal}
        for number in numbers:
            if number > tables.mark.indexed:
                raise Violation(f"commit {number} left the journal before it was in the histories")
            self._of_age(f"commit {number}", entries[number].at, at, self._retention.events)
        left = min(entries.keys() - set(numbers), default=None)
        if numbers and left is not None and left < max(numbers):
            raise Violation(f"commit {left} stays in the journal although commit {max(numbers)} went")

    def _of_age(self, what: str, since: int, at: int, age: int | None) -> None:
        if age is None or since >= at - age:
            raise Violation(f"{what} was deleted {at - since} ms after its time, to be kept for {age}")

    # -- at the end ---------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[JobRow]:
        """All jobs that were deleted."""
        return (row for row, _ in self.deleted.values())

    def without_deleted(self, tables: Tables) -> Tables:
        """Tables that a replay made on top of older ones, without what has gone since."""
        twin = tables.copy()
        for seq in self.deleted:
            for rows in (twin.jobs, twin.statuses, twin.leases, twin.ends):
                rows.pop(seq, None)
        return twin
