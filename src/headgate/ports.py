"""The ports: what the engine asks of the world, as protocols. Edges implement them; the engine imports no edge.

A store keeps rows and knows no rules. The engine hands it whole batches; what is in a batch becomes durable together
or not at all. Rows are plain tuples in the order of their columns. Times are integer milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from headgate.core.errors import HeadgateError
from headgate.core.states import JobState

R = TypeVar("R")


class Clock(Protocol):
    """Time that never goes back while the process lives."""

    def now(self) -> int:
        """Milliseconds since 1970."""
        ...


class Ids(Protocol):
    """Names for new jobs, sortable by the time they were made."""

    def new(self) -> str:
        """A name nobody has yet."""
        ...

    def many(self, count: int) -> list[str]:
        """So many names at once, in order."""
        ...


class Chance(Protocol):
    """Where randomness comes from."""

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...


# -- errors of stores ---------------------------------------------------------------------------------------------


class StoreError(HeadgateError):
    """The store cannot do what was asked."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or opened."""


class StoreDamaged(StoreError):
    """The store's content is damaged; nothing was changed."""


class StoreTooNew(StoreError):
    """The store was written by a newer version."""


class StoreOwned(StoreError):
    """Another engine owns the store."""


class CommitFailed(StoreError):
    """The commit did not succeed: what it held is not durable."""


class Deposed(CommitFailed):
    """Another engine took the store over: this one must stop."""


RESTORE_LEAP = 1_000
"""How far a restore moves the epoch on, past all that the original may have used since it was copied. Leases granted
so many epochs ago belong to the time before the restore: they are void."""


Key = tuple[str, str]
"""A tenant and one of its idempotency keys."""


# -- rows ---------------------------------------------------------------------------------------------------------


class JobRow(NamedTuple):
    """A job as submitted. It never changes."""

    seq: int
    id: str
    created_at: int
    state: str
    """`blocked` or `queued`, as it was on submission."""
    tenant: str
    type: str
    name: str
    priority: str
    job_class: int
    key: str | None
    retry_of: str | None
    spec: bytes
    """`JobSpec` in msgpack."""


class StatusRow(NamedTuple):
    """What is no longer as submitted about a job that has not ended. Most jobs never have one."""

    seq: int
    state: str
    attempt: int
    not_before: int | None
    queued_at: int
    job_class: int
    kind: bytes | None
    """`JobKind` in msgpack, where it was changed."""
    lease_id: str | None
    token: int | None
    verb: str | None
    digest: bytes | None
    """The last four: how the last lease was settled, if one was."""


class LeaseRow(NamedTuple):
    """A live lease."""

    seq: int
    lease_id: str
    token: int
    worker_id: str | None
    pool_id: str | None
    granted_at: int
    started_at: int | None
    ttl: int
    attempt: int
    fence_at: int | None
    for_job: str | None


class EndRow(NamedTuple):
    """How a job ended. It never changes."""

    seq: int
    state: str
    ended_at: int
    attempt: int
    started_at: int | None
    worker_id: str | None
    lease_id: str | None
    token: int | None
    verb: str | None
    digest: bytes | None
    error: bytes | None
    """`Failure` in msgpack, or none."""
    result: bytes | None
    """Encoded JSON, or none."""


class DocumentRow(NamedTuple):
    """A worker, pool, tenant, model or policy; `body` none deletes it."""

    kind: str
    id: str
    body: bytes | None


class RecordRow(NamedTuple):
    """An entry of a log that only grows: decisions, samples of load, audit."""

    kind: str
    at: int
    number: int
    key: str
    body: bytes


class EventRow(NamedTuple):
    """An event of a job, for its history. Written off the hot path, from the journal."""

    job_seq: int
    number: int
    at: int
    type: str
    body: bytes


class JournalRow(NamedTuple):
    """One commit's effects: events in msgpack without the content that stands in rows of its own."""

    number: int
    epoch: int
    at: int
    events: bytes


class Gone(msgspec.Struct):
    """What is deleted for its age. Whoever fills it in has seen to it that nobody needs it any more."""

    jobs: list[int] = []
    """Ended jobs with their ends and their histories, by submission number."""
    histories: list[int] = []
    """The events of jobs that stay."""
    journal: list[int] = []
    """Entries, by commit number: always the oldest, since a journal with a hole cannot be replayed."""
    records: list[tuple[str, int, int]] = []
    """By kind, time and number."""

    def __bool__(self) -> bool:
        return bool(self.jobs or self.histories or self.journal or self.records)


class Batch(msgspec.Struct):
    """One commit. Lists may be empty; rows with the same key replace what was there."""

    number: int
    epoch: int
    at: int
    seq: int
    """The last submission number given out."""
    tokens: int
    """The last lease number given out."""
    low_water: int
    """No job below this submission number is live: recovery need not look there."""
    journal: bytes = b""
    """Empty: this commit has no effects and leaves no row in the journal."""
    jobs: list[JobRow] = []
    statuses: list[StatusRow] = []
    statuses_gone: list[int] = []
    leases: list[LeaseRow] = []
    leases_gone: list[int] = []
    ends: list[EndRow] = []
    documents: list[DocumentRow] = []
    records: list[RecordRow] = []
    events: list[EventRow] = []
    indexed: int | None = None
    """The journal up to this number has been turned into event rows."""
    gone: Gone | None = None
    """Deleted after all else in the batch was put."""


class Mark(NamedTuple):
    """Where a store stands."""

    epoch: int
    number: int
    seq: int
    tokens: int
    indexed: int
    low_water: int


class LiveJob(NamedTuple):
    """A job that has not ended, as far as a state is rebuilt from it: a million are read when an engine starts."""

    seq: int
    id: str
    created_at: int
    spec: bytes
    """`JobSpec` in msgpack."""
    status: StatusRow | None
    lease: LeaseRow | None


def live_job(job: JobRow, status: StatusRow | None, lease: LeaseRow | None) -> LiveJob:
    """What recovery needs of these rows."""
    return LiveJob(job.seq, job.id, job.created_at, job.spec, status, lease)


class EndedJob(NamedTuple):
    """A job that has ended, as the store holds it."""

    job: JobRow
    end: EndRow


class OldEnd(NamedTuple):
    """A job that ended long ago, as far as its deletion has to know it."""

    ended_at: int
    seq: int
    id: str
    keyed: bool
    history: bool
    """Whether it still has events."""


# -- questions ----------------------------------------------------------------------------------------------------


class JobQuery(msgspec.Struct, frozen=True):
    """Which jobs to list. Empty tuples mean any. Newest first unless said otherwise.

    Ranges of time begin with `from` and stop before `to`. `name_contains` is taken literally, case and all.
    """

    states: tuple[JobState, ...] = ()
    classes: tuple[int, ...] = ()
    tenants: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    name_contains: str | None = None
    created_from: int | None = None
    created_to: int | None = None
    ended_from: int | None = None
    ended_to: int | None = None
    order: Literal["newest", "oldest"] = "newest"
    after: int | None = None
    """The cursor: the submission number of the last job of the page before."""
    limit: int = 100


class JobView(NamedTuple):
    """A job with what became of it."""

    job: JobRow
    state: JobState
    status: StatusRow | None
    lease: LeaseRow | None
    end: EndRow | None


class Compacted(NamedTuple):
    """How much was deleted for its age."""

    jobs: int = 0
    histories: int = 0
    journal: int = 0
    records: int = 0


class Store(Protocol):
    """A durable (or not) home for the state. One engine at a time; calls come from one thread at a time.

    `open` makes the caller the owner and raises the epoch; every `seal` checks that the epoch is still its own.
    `write` followed by `seal` is one commit: after `seal` returned, all of the batch is durable; if either raises,
    none of it is, and the store must be opened anew. History questions may come from other threads.
    """

    name: str
    """What to call it in messages: the path or address without secrets."""

    def open(self) -> Mark:
        """Become the owner: check the content, migrate it, raise the epoch.

        After a failed commit the owner opens anew, without closing: nobody else gets in between, and history
        questions are answered meanwhile as far as the disk allows.
        """
        ...

    def live_jobs(self) -> Iterator[LiveJob]:
        """All jobs that have not ended, in order of submission."""
        ...

    def recent_ends(self, limit: int) -> list[EndedJob]:
        """The last jobs that ended, oldest end first; of those that ended at once, in order of submission."""
        ...

    def documents(self) -> Iterator[DocumentRow]:
        """All documents."""
        ...

    def write(self, batch: Batch) -> None:
        """Put a batch into the open transaction."""
        ...

    def seal(self) -> None:
        """Make what was written durable, or raise `CommitFailed` (`Deposed` if another engine took over)."""
        ...

    def close(self) -> None:
        """Let go of everything. Closing twice is the same as once."""
        ...

    # -- history ----------------------------------------------------------------------------------------------

    def find_jobs(self, query: JobQuery) -> list[JobView]:
        """A page of jobs."""
        ...

    def get_job(self, job_id: str) -> JobView | None:
        """One job, live or ended."""
        ...

    def states_of(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        """The states of those jobs that exist."""
        ...

    def find_keys(self, keys: Iterable[Key]) -> dict[Key, JobRow]:
        """The last job that was submitted with each of these idempotency keys, where there is one."""
        ...

    def counts(self) -> dict[tuple[JobState, int], int]:
        """How many jobs there are by state and class."""
        ...

    def events_of(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[EventRow]:
        """A job's history, oldest first, as far as it has been indexed."""
        ...

    def journal(self, after: int = 0) -> Iterator[JournalRow]:
        """The journal after a commit number, oldest first."""
        ...

    def entries(self, since: int = 0, until: int | None = None, after: int = 0, limit: int = 1_000) -> list[JournalRow]:
        """Entries of the journal from `since` to before `until`, after a commit number, in order of their commits."""
        ...

    def records(
        self, kind: str, since: int = 0, until: int | None = None, key: str | None = None, limit: int = 1_000,
        *, newest: bool = False,
    ) -> list[RecordRow]:  # fmt: skip
        """Entries of a log from `since` to before `until`, oldest first, or newest first."""
        ...

    # -- upkeep -----------------------------------------------------------------------------------------------

    def old_ends(self, before: int, after: tuple[int, int] = (-1, 0), limit: int = 1_000) -> list[OldEnd]:
        """Jobs that ended before a time, oldest end first, after a place given as time and submission number."""
        ...

    def old_entries(self, before: int, limit: int = 1_000) -> list[int]:
        """Commit numbers from the front of the journal, up to the first entry that is younger or not yet indexed."""
        ...

    def old_records(self, kind: str, before: int, limit: int = 1_000) -> list[tuple[int, int]]:
        """Times and numbers of a log's entries before a time, oldest first."""
        ...

    def shrink(self, spare: float) -> bool:
        """Give some of the room of deleted rows back, a bounded step, between batches; true while there is more.

        Up to `spare` of the whole is kept for new rows.
        """
        ...

    def backup(self, target: str) -> None:
        """Copy everything to a new file while work goes on."""
        ...

    def check(self) -> list[str]:
        """What is wrong with the stored content, as far as a store can tell; empty if nothing is."""
        ...


@runtime_checkable
class OpensBeside(Protocol):
    """A store whose content takes long to check: the state is rebuilt meanwhile."""

    def open_beside(self, rebuild: Callable[[Mark], R]) -> R:
        """`open`, with what `rebuild` makes of the mark and the rows before anything is written.

        It returns when both are done. If the content is not sound, `StoreDamaged` says so, whatever `rebuild` did.
        """
        ...
