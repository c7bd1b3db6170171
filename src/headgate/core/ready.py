"""The ready queue: who is next in the default order (class, fair share, rank, submission).

Jobs that need the same things line up in one `Bucket`: if the head of a bucket does not fit, nobody in it does. So the
cost of finding the next job grows with the number of different needs, never with the number of jobs that wait.

Needs are shared further: a `Shape` that fits nowhere fits for no tenant and in no class. Each shape is a bit, the
shapes known not to fit are a mask, and a tenant or a whole class that wants nothing else is passed over in one step.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, TypeVar

from headgate.core.bucket import Bucket, Shape, ShapeKey, order_key, shape_key
from headgate.core.job import CLASSES, JobKind

if TYPE_CHECKING:
    from headgate.core.state import Job

R = TypeVar("R")


class Line:
    """A tenant's open buckets in one class, filed by their heads.

    A bucket whose head has gone stays where it is until it is looked at; one that gets a better head is filed anew at
    once. So an entry may stand too early, never too late, and the first that is right is the best.
    """

    __slots__ = ("_heads", "mask", "number", "open", "standing", "tenant")

    def __init__(self, tenant: str, number: int) -> None:
        self.tenant = tenant
        self.number = number
        self.open: dict[int, Bucket] = {}
        self.mask = 0
        """The shapes of the open buckets."""
        self.standing = 0.0
        self._heads: list[tuple[int, int, Bucket]] = []

    @property
    def place(self) -> tuple[float, int]:
        """Where the tenant stands among the others; ties go to whoever came first."""
        return (self.standing, self.number)

    def add(self, bucket: Bucket, head: Job) -> None:
        """A bucket has ready jobs."""
        self.open[bucket.shape.number] = bucket
        self.mask |= bucket.shape.bit
        bucket.filed = order_key(head)
        insort(self._heads, (*bucket.filed, bucket))

    def remove(self, bucket: Bucket) -> None:
        """A bucket has no ready jobs any more."""
        del self.open[bucket.shape.number]
        self.mask &= ~bucket.shape.bit
        del self._heads[bisect_left(self._heads, bucket.filed)]

    def refile(self, bucket: Bucket, place: tuple[int, int]) -> None:
        """File a bucket under another place in the order."""
        del self._heads[bisect_left(self._heads, bucket.filed)]
        bucket.filed = place
        insort(self._heads, (*place, bucket))

    def seek(self, room: int, hopeless: int, ask: Callable[[Bucket, Job], R | None]) -> R | None:
        """Ask about buckets and their heads, best head first, without those known not to fit; the first answer."""
        index = 0
        while index < len(self._heads):
            rank, seq, bucket = self._heads[index]
            if bucket.blocked_at != room and not bucket.shape.bit & hopeless and (head := bucket.head()) is not None:
                if len(self._heads) > 1 and (head.seq != seq or head.kind.of.rank != -rank):
                    self.refile(bucket, order_key(head))
                    continue
                answer = ask(bucket, head)
                if answer is not None:
                    return answer
            index += 1
        return None


class ReadyQueue:
    """All ready jobs."""

    __slots__ = (
        "_buckets",
        "_external",
        "_hopeless",
        "_hopeless_at",
        "_lines",
        "_masks",
        "_numbers",
        "_order",
        "_shapes",
        "_spare",
        "by_class",
        "shared",
        "size",
    )

    def __init__(self) -> None:
        self.size = 0
        self.shared = False
        """Whether more than one tenant waits in any class, so that standings matter."""
        self.by_class = [0] * len(CLASSES)
        self._buckets: dict[tuple[int, str, ShapeKey], Bucket] = {}
        self._lines: list[dict[str, Line]] = [{} for _ in CLASSES]
        self._order: list[list[tuple[float, int, Line]]] = [[] for _ in CLASSES]
        self._numbers: dict[str, int] = {}
        self._shapes: dict[ShapeKey, Shape] = {}
        self._spare: list[int] = []
        """Numbers of shapes that were forgotten."""
        self._masks = [0] * len(CLASSES)
        """In each class, the shapes that anybody waits for."""
        self._external = 0
        """The shapes that need no worker."""
        self._hopeless = 0
        self._hopeless_at = -1

    def __del__(self) -> None:
        """A bucket and its jobs refer to each other, and the collector does not look into jobs: part them."""
        for bucket in self._buckets.values():
            bucket.let_go()

    def bucket_for(self, job_class: int, kind: JobKind) -> Bucket:
        """The bucket of a kind; made if it is new."""
        key = (job_class, kind.tenant, shape_key(kind))
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(job_class, kind.tenant, self._shape_of(kind))
        return bucket

    def _shape_of(self, kind: JobKind) -> Shape:
        key = shape_key(kind)
        shape = self._shapes.get(key)
        if shape is None:
            number = self._spare.pop() if self._spare else len(self._shapes)
            shape = self._shapes[key] = Shape(kind, number)
            if shape.external:  # it came after the workers were given up, and needs none
                self._external |= shape.bit
                self._hopeless &= ~shape.bit
        return shape

    def push(self, job: Job) -> None:
        """A job became ready."""
        job.ready = True
        bucket = job.kind.bucket
        may_lead = bucket.push(job)
        self.size += 1
        self.by_class[bucket.job_class] += 1
        if bucket.live == 1:
            self._open(bucket, job)
        elif may_lead and (place := order_key(job)) < bucket.filed:
            self._lines[bucket.job_class][bucket.tenant].refile(bucket, place)

    def push_all(self, bucket: Bucket, jobs: list[Job]) -> None:
        """New jobs of one kind became ready, in order of submission."""
        self.push(jobs[0])
        rest = jobs[1:]
        if rest and bucket.extend(rest):  # none of them stands before the first
            self.size += len(rest)
            self.by_class[bucket.job_class] += len(rest)
            return
        for job in rest:
            self.push(job)

    def drop(self, job: Job) -> None:
        """A job is no longer ready."""
        job.ready = False
        bucket = job.kind.bucket
        bucket.discard()
        self.size -= 1
        self.by_class[bucket.job_class] -= 1
        if bucket.live == 0:
            self._close(bucket)

    def seek(self, room: int, preempting: Collection[int], ask: Callable[[Bucket, Job], R | None]) -> R | None:
        """Ask about heads of buckets in the default order until there is an answer, which must change nothing here.

        Left out are those known not to fit since `room` last changed. In a class that may preempt, a shape that fits
        nowhere is still asked about: room can be made for it. (A generator to be left half-way costs more than all
        the rest of a look at the queue.)
        """
        self._hope_anew(room)
        for job_class, order in enumerate(self._order):
            if not order:
                continue
            undaunted = job_class in preempting
            if not undaunted and not self._masks[job_class] & ~self._hopeless:
                continue
            for _, _, line in order:
                hopeless = 0 if undaunted else self._hopeless
                if line.mask & ~hopeless:
                    answer = line.seek(room, hopeless, ask)
                    if answer is not None:
                        return answer
        return None

    @property
    def external(self) -> bool:
        """Whether there may be jobs that need no worker."""
        return self._external != 0

    def unrivalled(self, bucket: Bucket) -> bool:
        """Whether no other bucket or tenant of its class could come between two jobs of this one."""
        return not self.shared and len(self._lines[bucket.job_class][bucket.tenant].open) == 1

    def give_up(self, shape: Shape, room: int) -> None:
        """Nothing of this shape fits until `room` changes, whoever asks."""
        self._hope_anew(room)
        self._hopeless |= shape.bit

    def give_up_workers(self, room: int) -> None:
        """No worker takes anything until `room` changes: only shapes that need none are left."""
        self._hope_anew(room)
        self._hopeless |= ~self._external

    def _hope_anew(self, room: int) -> None:
        if self._hopeless_at != room:
            self._hopeless, self._hopeless_at = 0, room

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
        for order, lines in zip(self._order, self._lines, strict=True):
            line = lines.get(tenant)
            if line is None or line.standing == standing:
                continue
            if line.open:  # otherwise it stands nowhere until a job of its own is ready
                del order[bisect_left(order, line.place)]
                insort(order, (standing, line.number, line))
            line.standing = standing

    def forget_idle(self, keep: set[int]) -> None:
        """Drop empty buckets that no kind in use refers to, given the identities of those that are."""
        for key, bucket in list(self._buckets.items()):
            if bucket.live == 0 and bucket.dead == 0 and id(bucket) not in keep:
                del self._buckets[key]
        used = {bucket.shape.number for bucket in self._buckets.values()}
        for shape in [shape for shape in self._shapes.values() if shape.number not in used]:
            del self._shapes[shape.key]
            self._spare.append(shape.number)
            self._hopeless &= ~shape.bit
            self._external &= ~shape.bit

    def _open(self, bucket: Bucket, head: Job) -> None:
        job_class, shape = bucket.job_class, bucket.shape
        lines = self._lines[job_class]
        line = lines.get(bucket.tenant)
        if line is None:
            number = self._numbers.setdefault(bucket.tenant, len(self._numbers))
            line = lines[bucket.tenant] = Line(bucket.tenant, number)
        bucket.blocked_at = -1
        if not line.open:
            order = self._order[job_class]
            insort(order, (line.standing, line.number, line))
            self.shared = self.shared or len(order) > 1
        line.add(bucket, head)
        shape.open[job_class] += 1
        self._masks[job_class] |= shape.bit

    def _close(self, bucket: Bucket) -> None:
        job_class, shape = bucket.job_class, bucket.shape
        line = self._lines[job_class][bucket.tenant]
        line.remove(bucket)
        shape.open[job_class] -= 1
        if not shape.open[job_class]:
            self._masks[job_class] &= ~shape.bit
        if not line.open:
            order = self._order[job_class]
            del order[bisect_left(order, line.place)]
            self.shared = self.shared and any(len(order) > 1 for order in self._order)
