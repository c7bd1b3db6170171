"""When will it start? An estimate with an 80 % interval for a waiting job, and how often such intervals held.

Three steps, each in constant memory per job type. (1) Run times of ended jobs, as quantiles by type, say how long the
leases that are out will last. (2) The state of the queue then gives a first guess: when enough units and slots will
have come back for the job and for everybody before it. (3) The guess is never trusted as it is: what became of earlier
guesses in a like situation gives the interval, and its ends are moved a little after every miss, so that one job in
ten starts before the interval and one in ten after it, whatever the policy does with the queue.

Only the past is used. What a job itself did becomes known when it has started, and teaches about later ones.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

import msgspec

from headgate.core.bucket import order_key
from headgate.core.sketch import Durations, Sketch
from headgate.core.state import Job, State
from headgate.core.states import JobState

MISS = 0.1
"""The share of jobs that may start before the interval, and after it."""
UNKNOWN_RUN = 60_000.0
"""What a run is taken to last, in milliseconds, while nothing at all is known."""
MOST_TYPES = 1_000
MOST_STATED = 10_000
_ENOUGH = 8
_TAUGHT = 20
_STEP = 0.01
_SOFT = 100.0
"""Milliseconds added to both sides of a ratio, so that a wait of nothing has a logarithm."""
_ENDS = 256
"""How many ends of leases the queue is played forward for."""
_SIZES = (1 / 16, 1 / 4, 1 / 2)
_WAITS = (0.1, 0.5, 2.0, 8.0)

Cell = tuple[int, int]


class Estimate(msgspec.Struct, frozen=True):
    """When a job is expected to start; four in five start from `low` to `high`."""

    job_id: str
    stated_at: int
    start: int
    low: int
    high: int
    learned_from: int
    """How many earlier waits the interval rests on; the fewer, the less it is worth."""


class Accuracy(msgspec.Struct, frozen=True):
    """What became of the estimates that were stated when jobs began to wait."""

    stated: int = 0
    started: int = 0
    inside: int = 0
    before: int = 0
    after: int = 0

    @property
    def share_inside(self) -> float | None:
        """The share of the jobs that started inside their interval; none before the first."""
        return self.inside / self.started if self.started else None


class _Statement(msgspec.Struct, frozen=True):
    estimate: Estimate
    cell: Cell
    guess: float


class RunTimes:
    """How long jobs run, by type."""

    def __init__(self) -> None:
        self._all = Durations(memory=2_000)
        self._by_type: dict[str, Durations] = {}

    def add(self, job_type: str, milliseconds: int, jobs: int = 1) -> None:
        """A job of that type ran so long, or so many did."""
        self._all.add(milliseconds, jobs)
        runs = self._by_type.pop(job_type, None)
        if runs is None:
            runs = Durations()
            if len(self._by_type) >= MOST_TYPES:
                del self._by_type[next(iter(self._by_type))]
        self._by_type[job_type] = runs  # the type that was heard of last stands last
        runs.add(milliseconds, jobs)

    def typical(self) -> float:
        """The middle of all run times."""
        return self._all.quantile(0.5) if self._all.seen else UNKNOWN_RUN

    def expected(self, job_type: str, limit: int | None, said: int | None) -> float:
        """The middle of the run times of a type; else what the submitter said; else that of all jobs."""
        runs = self._by_type.get(job_type)
        if runs is not None and runs.seen >= _ENOUGH:
            middle = runs.quantile(0.5)
        elif said is not None:
            middle = float(said)
        else:
            middle = self.typical()
        return middle if limit is None else min(middle, float(limit))

    def spread(self, job_type: str | None, shares: Sequence[float]) -> tuple[float, ...]:
        """Quantiles of the run times of a type, or of all jobs; nothing where too little is known."""
        runs = self._all if job_type is None else self._by_type.get(job_type)
        enough = 1 if job_type is None else _ENOUGH
        return () if runs is None or runs.seen < enough else runs.quantiles(shares)

    def left(self, job_type: str, passed: int, limit: int | None, said: int | None) -> float:
        """What a run that has lasted so long still has before it."""
        runs = self._by_type.get(job_type)
        if runs is not None and runs.seen >= _ENOUGH:
            left = runs.left(passed)
        elif said is not None:
            left = max(said - passed, passed * 0.1)
        else:
            left = self._all.left(passed) if self._all.seen else UNKNOWN_RUN
        return left if limit is None else max(0.0, min(left, float(limit - passed)))


class Predictor:
    """Learns from what happens and states when waiting jobs will start."""

    def __init__(self) -> None:
        self.runs = RunTimes()
        self.accuracy = Accuracy()
        self._stated: dict[str, _Statement] = {}
        self._due: list[tuple[int, str]] = []
        """When the interval of each statement ends: a job that waits longer is a miss before it has started."""
        self._errors: dict[Cell, Sketch] = {}
        self._all_errors = _errors()
        self._low, self._high = MISS, 1.0 - MISS

    # -- stating ------------------------------------------------------------------------------------------------

    def estimate(self, state: State, job_id: str, now: int) -> Estimate | None:
        """When a waiting job will start; none for one that does not wait, or waits for other jobs to end."""
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.QUEUED:
            return None
        return self._statement(state, job, now).estimate

    def state(self, state: State, job_id: str, now: int) -> Estimate | None:
        """Make an estimate that will be held against what happens; the first one stands."""
        known = self._stated.get(job_id)
        if known is not None:
            return known.estimate
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.QUEUED or len(self._stated) >= MOST_STATED:
            return None
        self._notice_late(now)
        statement = self._stated[job_id] = self._statement(state, job, now)
        heapq.heappush(self._due, (statement.estimate.high, job_id))
        if len(self._due) > 2 * MOST_STATED:  # mostly of jobs that have started or gone
            self._due = sorted((known.estimate.high, id_) for id_, known in self._stated.items())
        self.accuracy = msgspec.structs.replace(self.accuracy, stated=self.accuracy.stated + 1)
        return statement.estimate

    def _statement(self, state: State, job: Job, now: int) -> _Statement:
        held_back = max(0, (job.not_before or 0) - now, _shut_for(state, now))
        guess = held_back + guess_wait(state, job, now, self.runs)
        cell = self._cell(state, job, guess)
        errors = self._errors.get(cell)
        if errors is None or errors.seen < _TAUGHT:
            errors = self._all_errors
        low, middle, high = self._spread(errors)
        wait = [max(0.0, (guess + _SOFT) * math.exp(error) - _SOFT) for error in (low, middle, high)]
        start, first, last = (now + max(held_back, round(each)) for each in (wait[1], wait[0], wait[2]))
        return _Statement(Estimate(job.id, now, start, first, last, errors.seen), cell, guess)

    def _spread(self, errors: Sketch) -> tuple[float, float, float]:
        if errors.seen < _TAUGHT:
            return (-2.0, 0.0, 2.0)  # a factor of seven either way, until something was learned
        return (errors.quantile(self._low), errors.quantile(0.5), errors.quantile(self._high))

    def _cell(self, state: State, job: Job, guess: float) -> Cell:
        size = job.kind.of.units / max(1, state.settings.total_units)
        wait = guess / self.runs.typical()
        return (sum(size > edge for edge in _SIZES), sum(wait > edge for edge in _WAITS))

    # -- learning -----------------------------------------------------------------------------------------------

    def ran(self, job_type: str, milliseconds: int, jobs: int = 1) -> None:
        """A job ran to its end, or so many did."""
        self.runs.add(job_type, milliseconds, jobs)

    def forget(self, job_id: str) -> None:
        """A job will not start any more: nothing can be learned from it."""
        self._stated.pop(job_id, None)

    def started(self, job_id: str, at: int) -> None:
        """A job was granted its lease: see what its estimate was worth."""
        if self._due and self._due[0][0] < at:
            self._notice_late(at)
        statement = self._stated.pop(job_id, None)
        if statement is not None:
            self._see(statement, at)

    def _see(self, statement: _Statement, at: int) -> None:
        estimate = statement.estimate
        before, after = at < estimate.low, at > estimate.high
        self._count(before, after)
        # Move the ends of later intervals: towards the middle after a hit, further out after a miss.
        self._low = min(0.4, max(0.001, self._low + _STEP * (MISS - before)))
        if not after:
            self._high = max(0.6, self._high - _STEP * MISS)
        error = math.log((at - estimate.stated_at + _SOFT) / (statement.guess + _SOFT))
        self._all_errors.add(error)
        self._errors.setdefault(statement.cell, _errors()).add(error)

    def _notice_late(self, now: int) -> None:
        while self._due and self._due[0][0] < now:
            _, job_id = heapq.heappop(self._due)
            if job_id in self._stated:
                self._high = min(0.999, self._high + _STEP * (1.0 - MISS))

    def _count(self, before: bool, after: bool) -> None:
        was = self.accuracy
        self.accuracy = Accuracy(
            was.stated,
            was.started + 1,
            was.inside + (not before and not after),
            was.before + before,
            was.after + after,
        )


def _errors() -> Sketch:
    return Sketch(-20.0, 20.0, 0.1, memory=300)


# -- the first guess ----------------------------------------------------------------------------------------------


class _Waiting:
    """Jobs of one bucket that stand before the job in question."""

    __slots__ = ("count", "run", "seq", "slots", "units")

    def __init__(self, head: Job, count: int, runs: RunTimes) -> None:
        of = head.kind.of
        self.seq = head.seq
        self.count = count
        self.units = of.units
        self.slots = int(not of.external)
        self.run = runs.expected(of.type, of.timeout, of.estimated_duration)


def guess_wait(state: State, job: Job, now: int, runs: RunTimes) -> float:
    """Milliseconds until the job would start if every run took its middle time and nobody else came.

    The queue is played forward by buckets: leases end, those before the job that fit are started, until it fits. After
    `_ENDS` ends the rest is shared out evenly, so the cost does not grow with the queue.
    """
    units, slots = _free(state, now)
    needs, takes = job.kind.of.units, int(not job.kind.bucket.shape.external)
    ends = list(_ends(state, now, runs))
    heapq.heapify(ends)
    ahead = sorted(_ahead(state, job, runs), key=lambda waiting: waiting.seq)
    passed = 0.0
    for _ in range(_ENDS):
        for waiting in ahead:
            if not waiting.count or waiting.units > units or waiting.slots > slots:
                continue
            fits = min(waiting.count, _times(units, waiting.units), _times(slots, waiting.slots))
            for _ in range(fits):
                heapq.heappush(ends, (passed + waiting.run, waiting.units, waiting.slots))
            waiting.count -= fits
            units -= fits * waiting.units
            slots -= fits * waiting.slots
            if not slots:  # nothing more fits but what needs no worker, which is rare
                break
        if (needs <= units and takes <= slots) or not ends:
            return passed
        passed, freed, left = heapq.heappop(ends)
        units += freed
        slots += left
    return passed + _even(state, ends, ahead, passed)


def _times(free: int, each: int) -> int:
    return max(0, free // each) if each else _ENDS


def _even(state: State, ends: list[tuple[float, int, int]], ahead: list[_Waiting], passed: float) -> float:
    """The time that all the work that is left takes if it is spread evenly over units and slots."""
    work = [sum((end - passed) * amount[column] for end, *amount in ends) for column in (0, 1)]
    for waiting in ahead:
        work[0] += waiting.count * waiting.units * waiting.run
        work[1] += waiting.count * waiting.slots * waiting.run
    return max(work[0] / max(1, state.settings.total_units - state.settings.reserve), work[1] / _slots(state))


def _ends(state: State, now: int, runs: RunTimes) -> Iterator[tuple[float, int, int]]:
    """For every lease: how long it will still be out, its units, and whether it holds a slot."""
    for lease in state.leases.values():
        of = state.jobs[lease.job_id].kind.of
        passed = max(0, now - (now if lease.started_at is None else lease.started_at))
        left = runs.left(of.type, passed, of.timeout, of.estimated_duration)
        yield left, lease.units, int(lease.worker_id is not None)


def _ahead(state: State, job: Job, runs: RunTimes) -> Iterator[_Waiting]:
    mine = order_key(job)
    for bucket in state.ready.buckets():
        if bucket.job_class > job.kind.job_class:
            continue
        count = bucket.live if bucket.job_class < job.kind.job_class else bucket.count_before(mine)
        head = bucket.head()
        if count and head is not None:
            yield _Waiting(head, count, runs)


def _free(state: State, now: int) -> tuple[int, int]:
    """Units and slots that nobody holds. A shut gate is taken to open again: when, nobody knows."""
    usable = state.usable_units(now) or state.settings.total_units - state.settings.reserve
    slots = sum(max(0, worker.slots_free) for worker in state.workers.values() if worker.status == "ready")
    return max(0, usable - state.leased_units), slots


def _shut_for(state: State, now: int) -> int:
    """Milliseconds for which a shut gate stays shut at least: it opens when capacity is reckoned anew."""
    load = state.load
    if load.recalculated_at is None or load.blind or state.usable_units(now) > 0:
        return 0
    if state.settings.fixed_busy is not None:
        return 0
    return max(0, load.recalculated_at + state.settings.recalculate - now)


def _slots(state: State) -> int:
    return max(1, sum(worker.limit for worker in state.workers.values() if worker.status == "ready"))
