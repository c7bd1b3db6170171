"""A state with work in it, for benchmarks of the core: jobs in the queue, two workers of 64 slots, and a clock."""

from __future__ import annotations

from collections import deque
from itertools import count, product
from random import Random

from headgate.core import JobSpec, Settings, State, decide
from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.job import CLASSES, JobKind
from headgate.core.lease import Lease
from headgate.core.ordering import FirstFit
from headgate.core.quantities import Resources
from headgate.core.state import Job

GIB = 1 << 30
ONE_KIND = (JobKind(),)
_NAMES = ("cpu", "memory", "vram")
_SHAPES = tuple(product((1, 2, 4), (0, GIB // 2, GIB, 4 * GIB), (0, 8 * GIB)))
MANY_KINDS = tuple(
    JobKind(
        priority=priority,
        tenant=f"tenant-{tenant}",
        resources=tuple((name, amount) for name, amount in zip(_NAMES, shape, strict=True) if amount),
    )
    for shape, priority, tenant in product(_SHAPES, CLASSES, range(10))
)
"""24 shapes x 4 classes x 10 tenants."""

ROOMY: Resources = (("cpu", 1024), ("memory", 1024 * GIB), ("vram", 1024 * GIB))
TIGHT: Resources = (("cpu", 128), ("memory", 64 * GIB), ("vram", 128 * GIB))
_FILL = 1_000


class World:
    """A state that can be made to do every kind of work over and over."""

    def __init__(self, kinds: tuple[JobKind, ...]) -> None:
        self.state = State(Settings(total_units=1_000_000, retain_finished=1_000))
        self.now = 1_000_000
        self.drained: list[Job] = []
        self.held: deque[Lease] = deque()
        self._policy = FirstFit()
        self._policy.one_by_one = True
        self._kinds = kinds
        self._chance = Random(len(kinds))
        self._ids = count()
        self._register(ROOMY)
        self.breathe()

    def _register(self, resources: Resources) -> None:
        for worker in ("worker-1", "worker-2"):
            decide(self.state, c.RegisterWorker(WorkerSpec(worker, slots=64, resources=resources)), self.now)

    def breathe(self) -> None:
        """Let a moment pass, with the signs of life that keep the gate open."""
        self.now += 10
        decide(self.state, c.SampleLoad("host", {"cpu": 0.1, "memory": 0.2}), self.now)
        for worker in self.state.workers:
            decide(self.state, c.WorkerBeat(worker), self.now)
        for lease in self.held:
            decide(self.state, c.Heartbeat(lease.id, lease.token), self.now)

    # -- jobs -------------------------------------------------------------------------------------------------

    def new(self, kind: JobKind) -> c.NewJob:
        """A job with an id of 26 characters and a payload of 100 bytes, both its own."""
        n = next(self._ids)
        return c.NewJob(f"{n:026d}", JobSpec(kind, "bench", b"%0100d" % n))

    def some(self, number: int) -> list[c.NewJob]:
        """Jobs of all kinds, mixed."""
        return [self.new(self._chance.choice(self._kinds)) for _ in range(number)]

    def submit(self, jobs: list[c.NewJob]) -> None:
        """Take in jobs with one command."""
        decide(self.state, c.Submit(tuple(jobs)), self.now)

    def submit_singly(self, jobs: list[c.NewJob]) -> None:
        """Take in jobs, each with a command of its own."""
        for job in jobs:
            decide(self.state, c.Submit((job,)), self.now)

    def fill(self, size: int) -> World:
        """Queue jobs until there are `size`."""
        while self.state.depth < size:
            self.submit(self.some(min(_FILL, size - self.state.depth)))
        return self

    def cancel(self, jobs: list[c.NewJob]) -> None:
        """Take jobs out of the queue again."""
        for job in jobs:
            decide(self.state, c.Cancel(job.id), self.now)

    def restore(self, given: list[c.NewJob]) -> None:
        """After `given` were submitted and as many drained: make the queue what it was before."""
        own = {job.id for job in given}
        self.submit([self.new(job.kind.of) for job in self.drained if job.id not in own])
        self.cancel([job for job in given if self.state.jobs[job.id].ready])

    # -- leases -----------------------------------------------------------------------------------------------

    def grant(self) -> Lease | None:
        """Ask the policy once and carry out what it proposes: one job at a time is measured here."""
        plan = self._policy.propose(self.state, self.now)
        if not plan:
            return None
        granted = decide(self.state, c.Schedule(tuple(plan)), self.now).reply.granted
        return self.state.leases[granted[0]] if granted else None

    def start(self, lease: Lease) -> None:
        """The holder begins."""
        decide(self.state, c.Start(lease.id, lease.token), self.now)

    def complete(self, lease: Lease) -> None:
        """The holder is done."""
        decide(self.state, c.Complete(lease.id, lease.token), self.now)

    def cycle(self) -> None:
        """Grant, start and complete one job."""
        lease = self.grant()
        assert lease is not None
        self.start(lease)
        self.drained.append(self.state.jobs[lease.job_id])
        self.complete(lease)

    # -- batches ----------------------------------------------------------------------------------------------

    def drain(self, number: int) -> None:
        """Grant, start and complete; a tick at the end forgets what has finished."""
        self.drained = []
        for _ in range(number):
            self.cycle()
        decide(self.state, c.Tick(), self.now)

    def live_through(self, jobs: list[c.NewJob]) -> None:
        """Submit, grant, start and complete; a tick at the end."""
        self.drained = []
        for job in jobs:
            decide(self.state, c.Submit((job,)), self.now)
            self.cycle()
        decide(self.state, c.Tick(), self.now)

    def make_tight(self) -> None:
        """Leave the workers fewer resources than slots, and grant until nothing fits."""
        self._register(TIGHT)
        self._grant_all()

    def turn_over(self, number: int) -> None:
        """The oldest lease ends, a job of its kind is submitted, and all that now fits is granted; over and over."""
        for _ in range(number):
            lease = self.held.popleft()
            kind = self.state.jobs[lease.job_id].kind.of
            self.complete(lease)
            decide(self.state, c.Submit((self.new(kind),)), self.now)
            self._grant_all()
        decide(self.state, c.Tick(), self.now)

    def _grant_all(self) -> None:
        while (lease := self.grant()) is not None:
            self.start(lease)
            self.held.append(lease)
