"""The ready queue: who is next in the default order (class, fair share, rank, submission).

Jobs that need the same things line up in one `Bucket`: if the head of a bucket does not fit, nobody in it does. So the
cost of finding the next job grows with the number of different needs, never with the number of jobs that wait.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.core.job import CLASSES, JobKind
from headgate.core.quantities import Resources

if TYPE_CHECKING:
    from headgate.core.state import Job


class Shape:
    """What a job needs to run, and nothing else. Equal shapes are one object."""

    __slots__ = ("external", "key", "model_ref", "pool", "requires", "resources", "type", "units")

    def __init__(self, kind: JobKind) -> None:
        self.units = kind.units
        self.resources: Resources = kind.resources
        self.model_ref = kind.model_ref
        self.pool = kind.pool
        self.requires = kind.requires
        self.type = kind.type
        self.external = kind.external
        self.key = shape_key(kind)


ShapeKey = tuple[object, ...]


def shape_key(kind: JobKind) -> ShapeKey:
    """What makes two jobs interchangeable for placement."""
    return (kind.units, kind.resources, kind.model_ref, kind.pool, kind.requires, kind.type, kind.external)


class Bucket:
    """Ready jobs of one class, one tenant and one shape, in order of rank and submission."""

    __slots__ = ("_line", "_strays", "blocked_at", "dead", "job_class", "live", "shape", "tenant")

    def __init__(self, job_class: int, tenant: str, shape: Shape) -> None:
        self.job_class = job_class
        self.tenant = tenant
        self.shape = shape
        self.live = 0
        self.dead = 0
        self.blocked_at = -1
        # Nearly every job arrives in order and goes to the end of the line; jobs that come back go to the heap.
        self._line: deque[Job] = deque()
        self._strays: list[tuple[int, int, Job]] = []

    def push(self, job: Job) -> None:
        """Put a job in its place."""
        self.live += 1
        if job.parked:  # its old entry still stands at the right place
            self.dead -= 1
            return
        job.parked = True
        rank, line = job.kind.of.rank, self._line
        if not line or ((last := line[-1]).seq < job.seq and last.kind.of.rank >= rank):
            line.append(job)
        else:
            heapq.heappush(self._strays, (-rank, job.seq, job))

    def discard(self) -> None:
        """A job of this bucket is no longer ready. Its entry is passed over when its turn comes."""
        self.live -= 1
        self.dead += 1
        if self.dead > 64 and self.dead > 2 * self.live:
            self._sweep()

    def head(self) -> Job | None:
        """The first ready job."""
        line, strays = self._line, self._strays
        while line and not line[0].ready:
            line.popleft().parked = False
            self.dead -= 1
        while strays and not strays[0][2].ready:
            heapq.heappop(strays)[2].parked = False
            self.dead -= 1
        if not strays:
            return line[0] if line else None
        if not line:
            return strays[0][2]
        first = line[0]
        return first if (-first.kind.of.rank, first.seq) < strays[0][:2] else strays[0][2]

    def count_before(self, key: tuple[int, int]) -> int:
        """How many ready jobs stand before a place in the order; a close estimate where entries are passed over."""
        strays = sum(entry[2].ready and entry[:2] < key for entry in self._strays)
        return max(0, min(self.live, bisect_left(self._line, key, key=order_key) - self.dead)) + strays

    def _sweep(self) -> None:
        for job in self._line:
            job.parked = job.ready
        for _, _, job in self._strays:
            job.parked = job.ready
        self._line = deque(job for job in self._line if job.ready)
        self._strays = [entry for entry in self._strays if entry[2].ready]
        heapq.heapify(self._strays)
        self.dead = 0

    def __iter__(self) -> Iterator[Job]:
        """All ready jobs in order; costs what a sort costs."""
        jobs = [job for job in self._line if job.ready] + [entry[2] for entry in self._strays if entry[2].ready]
        return iter(sorted(jobs, key=order_key))


def order_key(job: Job) -> tuple[int, int]:
    """Rank, higher first, then submission."""
    return (-job.kind.of.rank, job.seq)


class Line:
    """A tenant's open buckets in one class."""

    __slots__ = ("live", "number", "open", "standing", "tenant")

    def __init__(self, tenant: str, number: int) -> None:
        self.tenant = tenant
        self.number = number
        self.open: dict[ShapeKey, Bucket] = {}
        self.live = 0
        self.standing = 0.0

    @property
    def place(self) -> tuple[float, int]:
        """Where the tenant stands among the others; ties go to whoever came first."""
        return (self.standing, self.number)

    def by_head(self) -> Iterator[tuple[Bucket, Job]]:
        """Buckets with their heads, best head first."""
        if len(self.open) == 1:
            for bucket in self.open.values():
                head = bucket.head()
                if head is not None:
                    yield bucket, head
            return
        heads = [(bucket, head) for bucket in self.open.values() if (head := bucket.head()) is not None]
        while heads:
            best = min(heads, key=lambda pair: order_key(pair[1]))
            yield best
            heads.remove(best)


class ReadyQueue:
    """All ready jobs."""

    __slots__ = ("_buckets", "_lines", "_numbers", "_order", "by_class", "shared", "size")

    def __init__(self) -> None:
        self.size = 0
        self.shared = False
        """Whether more than one tenant waits in any class, so that standings matter."""
        self.by_class = [0] * len(CLASSES)
        self._buckets: dict[tuple[int, str, ShapeKey], Bucket] = {}
        self._lines: list[dict[str, Line]] = [{} for _ in CLASSES]
        self._order: list[list[tuple[float, int, Line]]] = [[] for _ in CLASSES]
        self._numbers: dict[str, int] = {}

    def bucket_for(self, job_class: int, kind: JobKind) -> Bucket:
        """The bucket of a kind; made if it is new."""
        key = (job_class, kind.tenant, shape_key(kind))
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(job_class, kind.tenant, Shape(kind))
        return bucket

    def push(self, job: Job) -> None:
        """A job became ready."""
        bucket = job.kind.bucket
        bucket.push(job)
        self.size += 1
        self.by_class[bucket.job_class] += 1
        if bucket.live == 1:
            self._open(bucket)

    def drop(self, job: Job) -> None:
        """A job is no longer ready; the caller has cleared its flag."""
        bucket = job.kind.bucket
        bucket.discard()
        self.size -= 1
        self.by_class[bucket.job_class] -= 1
        if bucket.live == 0:
            self._close(bucket)

    def candidates(self, room: int) -> Iterator[tuple[Bucket, Job]]:
        """Heads of buckets in the default order, leaving out buckets known not to fit since `room` last changed."""
        for order in self._order:
            for _, _, line in tuple(order) if len(order) > 1 else order:
                for bucket, head in line.by_head():
                    if bucket.blocked_at != room:
                        yield bucket, head

    def buckets(self) -> Iterator[Bucket]:
        """All open buckets: by class, by standing of the tenant, then as they were opened."""
        for order in self._order:
            for _, _, line in order:
                yield from line.open.values()

    def __iter__(self) -> Iterator[Job]:
        """All ready jobs in the order class, standing of the tenant, rank, submission."""
        for order in self._order:
            for _, _, line in order:
                yield from sorted((job for bucket in line.open.values() for job in bucket), key=order_key)

    def waiting_tenants(self) -> set[str]:
        """Tenants with ready jobs."""
        return {line.tenant for order in self._order for _, _, line in order}

    def restand(self, tenant: str, standing: float) -> None:
        """Move a tenant to where it now stands."""
        for job_class, lines in enumerate(self._lines):
            line = lines.get(tenant)
            if line is None or line.standing == standing:
                continue
            self._leave(job_class, line)
            line.standing = standing
            self._enter(job_class, line)

    def forget_idle(self, keep: set[int]) -> None:
        """Drop empty buckets that no kind in use refers to, given the identities of those that are."""
        for key, bucket in list(self._buckets.items()):
            if bucket.live == 0 and bucket.dead == 0 and id(bucket) not in keep:
                del self._buckets[key]

    def _open(self, bucket: Bucket) -> None:
        lines = self._lines[bucket.job_class]
        line = lines.get(bucket.tenant)
        if line is None:
            number = self._numbers.setdefault(bucket.tenant, len(self._numbers))
            line = lines[bucket.tenant] = Line(bucket.tenant, number)
        line.open[bucket.shape.key] = bucket
        line.live += 1
        bucket.blocked_at = -1
        if line.live == 1:
            self._enter(bucket.job_class, line)

    def _close(self, bucket: Bucket) -> None:
        line = self._lines[bucket.job_class][bucket.tenant]
        del line.open[bucket.shape.key]
        line.live -= 1
        if line.live == 0:
            self._leave(bucket.job_class, line)

    def _enter(self, job_class: int, line: Line) -> None:
        insort(self._order[job_class], (line.standing, line.number, line))
        self.shared = self.shared or len(self._order[job_class]) > 1

    def _leave(self, job_class: int, line: Line) -> None:
        order = self._order[job_class]
        index = bisect_left(order, (line.standing, line.number))
        if index < len(order) and order[index][2] is line:
            del order[index]
        if self.shared:
            self.shared = any(len(order) > 1 for order in self._order)
