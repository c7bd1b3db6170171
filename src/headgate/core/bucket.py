"""A bucket: the ready jobs that need the same things, in line. If its head does not fit, nobody in it does."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from headgate.core.job import CLASSES, JobKind
from headgate.core.quantities import Resources

if TYPE_CHECKING:
    from headgate.core.state import Job


class Shape:
    """What a job needs to run, and nothing else. Equal shapes are one object."""

    __slots__ = (
        "bit",
        "external",
        "handler",
        "key",
        "model_ref",
        "number",
        "open",
        "pool",
        "requires",
        "resources",
        "type",
        "units",
    )

    def __init__(self, kind: JobKind, number: int = 0) -> None:
        self.units = kind.units
        self.resources: Resources = kind.resources
        self.model_ref = kind.model_ref
        self.pool = kind.pool
        self.requires = kind.requires
        self.type = kind.type
        self.external = kind.external
        self.handler = kind.handler
        self.key = shape_key(kind)
        self.number = number
        self.bit = 1 << number
        self.open = [0] * len(CLASSES)
        """In each class, how many buckets of this shape have ready jobs."""


ShapeKey = tuple[object, ...]


def shape_key(kind: JobKind) -> ShapeKey:
    """What makes two jobs interchangeable for placement."""
    placed = (kind.units, kind.resources, kind.model_ref, kind.pool, kind.requires, kind.type)
    return (*placed, kind.external, kind.handler)


class Bucket:
    """Ready jobs of one class, one tenant and one shape, in order of rank and submission."""

    __slots__ = ("_entered", "_line", "_strays", "blocked_at", "dead", "filed", "job_class", "live", "shape", "tenant")

    def __init__(self, job_class: int, tenant: str, shape: Shape) -> None:
        self.job_class = job_class
        self.tenant = tenant
        self.shape = shape
        self.live = 0
        self.dead = 0
        self.blocked_at = -1
        self.filed = (0, 0)
        """The place in the order under which its `Line` has filed it: that of its head, or of a head that has gone."""
        # Nearly every job arrives in order and goes to the end of the line; jobs that come back go to the heap.
        self._line: deque[Job] = deque()
        # The third part of an entry keeps two records of one job apart: the dead one of a changed job may still stand.
        self._strays: list[tuple[int, int, int, Job]] = []
        self._entered = 0

    def push(self, job: Job) -> bool:
        """Put a job in its place, and say whether that may be before others."""
        self.live += 1
        if job.parked:  # its old entry still stands at the right place
            self.dead -= 1
            return True
        job.parked = True
        rank, line = job.kind.of.rank, self._line
        if not line or ((last := line[-1]).seq < job.seq and last.kind.of.rank >= rank):
            line.append(job)
            return len(line) == 1 and bool(self._strays)  # first in the line, perhaps before those that came back
        self._entered += 1
        heapq.heappush(self._strays, (-rank, job.seq, self._entered, job))
        return True

    def extend(self, jobs: list[Job]) -> bool:
        """Put jobs of one kind behind the last in the line, if that is one of them; say whether it was done."""
        first, line = jobs[0], self._line
        if not line or line[-1].kind is not first.kind or line[-1].seq > first.seq:
            return False
        for job in jobs:
            job.parked = True
        line.extend(jobs)
        self.live += len(jobs)
        return True

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
        while strays and not strays[0][3].ready:
            heapq.heappop(strays)[3].parked = False
            self.dead -= 1
        if not strays:
            return line[0] if line else None
        if not line:
            return strays[0][3]
        first = line[0]
        return first if (-first.kind.of.rank, first.seq) < strays[0][:2] else strays[0][3]

    def behind_head(self, most: int) -> list[Job]:
        """Ready jobs that stand directly behind the head; none if that takes more than a look along the line."""
        if self._strays or most <= 0:
            return []
        return [job for job in islice(self._line, 1, most + 1) if job.ready]

    def count_before(self, key: tuple[int, int]) -> int:
        """How many ready jobs stand before a place in the order; a close estimate where entries are passed over."""
        strays = sum(entry[3].ready and entry[:2] < key for entry in self._strays)
        return max(0, min(self.live, bisect_left(self._line, key, key=order_key) - self.dead)) + strays

    def _sweep(self) -> None:
        for job in self._line:
            job.parked = job.ready
        for _, _, _, job in self._strays:
            job.parked = job.ready
        self._line = deque(job for job in self._line if job.ready)
        self._strays = [entry for entry in self._strays if entry[3].ready]
        heapq.heapify(self._strays)
        self.dead = 0

    def let_go(self) -> None:
        """Forget everybody."""
        self._line.clear()
        self._strays.clear()

    def __iter__(self) -> Iterator[Job]:
        """All ready jobs in order; costs what a sort costs."""
        jobs = [job for job in self._line if job.ready] + [entry[3] for entry in self._strays if entry[3].ready]
        return iter(sorted(jobs, key=order_key))


def order_key(job: Job) -> tuple[int, int]:
    """Rank, higher first, then submission."""
    return (-job.kind.of.rank, job.seq)
