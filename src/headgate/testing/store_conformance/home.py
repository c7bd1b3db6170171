"""What the suite asks of the store under test, and how it makes rows."""

from __future__ import annotations

from typing import Any, Protocol

from headgate.core.states import JobState
from headgate.ports import Batch, EndRow, JobRow, LeaseRow, Mark, StatusRow, Store

QUEUED = str(JobState.QUEUED)


class StoreHome(Protocol):
    """A place that a store keeps its content in, empty at the start of each test."""

    backs_up: bool
    """Whether `backup` copies the content to a file."""

    def store(self) -> Store:
        """A new, closed handle on the place. The suite closes the one before it, or has it crash."""
        ...

    def crash(self, store: Store) -> None:
        """End the owner as a kill would: what was not sealed is gone, nothing is tidied up."""
        ...

    def usurper(self) -> Store:
        """A closed handle whose `open` takes the place over from an owner that still lives."""
        ...

    def backup_target(self) -> str:
        """Where `backup` may write to; nothing is there yet."""
        ...

    def from_backup(self, target: str) -> Store:
        """A closed handle on such a copy."""
        ...


def job_row(seq: int, **changes: Any) -> JobRow:
    """A queued job."""
    row = JobRow(
        seq=seq,
        id=f"job-{seq:06}",
        created_at=1_000 + seq,
        state=QUEUED,
        tenant="default",
        type="generic",
        name=f"name {seq}",
        priority="normal",
        job_class=1,
        key=None,
        retry_of=None,
        spec=b"spec %d" % seq,
    )
    return row._replace(**changes)


def status_row(seq: int, **changes: Any) -> StatusRow:
    """A job that was retried once."""
    row = StatusRow(
        seq=seq,
        state=QUEUED,
        attempt=1,
        not_before=5_000,
        queued_at=4_000,
        job_class=1,
        kind=b"kind",
        lease_id="1-1",
        token=1 << 40 | 1,
        verb="fail",
        digest=b"\x00digest",
    )
    return row._replace(**changes)


def lease_row(seq: int, **changes: Any) -> LeaseRow:
    """A lease that was granted and not started."""
    row = LeaseRow(
        seq=seq,
        lease_id=f"1-{seq}",
        token=1 << 40 | seq,
        worker_id="worker",
        pool_id="pool",
        granted_at=2_000,
        started_at=None,
        ttl=30_000,
        attempt=1,
        fence_at=None,
        for_job=None,
    )
    return row._replace(**changes)


def end_row(seq: int, **changes: Any) -> EndRow:
    """A completed job."""
    row = EndRow(
        seq=seq,
        state=str(JobState.COMPLETED),
        ended_at=3_000 + seq,
        attempt=1,
        started_at=2_500,
        worker_id="worker",
        lease_id=f"1-{seq}",
        token=1 << 40 | seq,
        verb="complete",
        digest=b"digest",
        error=None,
        result=b'{"ok":true}',
    )
    return row._replace(**changes)


class Writer:
    """An open store with the numbers that an engine would keep beside it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.mark: Mark = store.open()
        self._number = self.mark.number

    def batch(self, **content: Any) -> Batch:
        """The next batch, not yet written."""
        self._number += 1
        defaults: dict[str, Any] = {
            "number": self._number,
            "epoch": self.mark.epoch,
            "at": 1_000 * self._number,
            "seq": max((row.seq for row in content.get("jobs", [])), default=self.mark.seq),
            "tokens": self.mark.tokens,
            "low_water": self.mark.low_water,
        }
        return Batch(**(defaults | content))

    def commit(self, **content: Any) -> Batch:
        """Write and seal a batch of this content."""
        batch = self.batch(**content)
        self.store.write(batch)
        self.store.seal()
        self.mark = Mark(
            epoch=self.mark.epoch,
            number=batch.number,
            seq=batch.seq,
            tokens=batch.tokens,
            indexed=self.mark.indexed if batch.indexed is None else batch.indexed,
            low_water=batch.low_water,
        )
        return batch

    def reopened(self, home: StoreHome) -> Writer:
        """Close the store and open the same place again."""
        self.store.close()
        return Writer(home.store())
