"""What an experiment shows: wait, bounded slowdown and utilisation of its arms, block by block.

Jobs are counted by what was assigned to them, not by who served them in the end: under a split by time the arm of the
window in which they were submitted. A job that has not started counts as waiting until now. Each block gives one
difference; the interval is that of the mean of these differences, drawn by blocks of neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headgate.policy.experiments import Arm, Experiment
from headgate.policy.statistics import Interval, bounded_slowdown, interval_of_blocks

MOST_BLOCKS = 100_000


class JobSpan(msgspec.Struct, frozen=True):
    """A job as far as an experiment is concerned. Times are milliseconds."""

    id: str
    tenant: str
    units: int
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None


class ArmFigures(msgspec.Struct):
    """One arm: means in seconds over its jobs, and the share of all units in use while, or where, it decides."""

    version: str
    jobs: int = 0
    waiting: int = 0
    """Jobs that have not started yet."""
    wait: float = 0.0
    slowdown: float = 0.0
    utilisation: float = 0.0


class ExperimentReport(msgspec.Struct):
    """The arms, and b against a; below zero is better for wait and slowdown."""

    experiment: Experiment
    until: int
    blocks: int
    a: ArmFigures
    b: ArmFigures
    wait: Interval | None
    """None, as for the others: too few blocks yet."""
    slowdown: Interval | None
    utilisation: Interval | None


class _Cell:
    """One arm in one block."""

    __slots__ = ("jobs", "slowdown", "wait", "work")

    def __init__(self) -> None:
        self.jobs = 0
        self.wait = self.slowdown = self.work = 0.0


def measure(
    experiment: Experiment, jobs: Iterable[JobSpan], now: int, total_units: int, served: Mapping[str, Arm]
) -> ExperimentReport:
    """Go through the jobs once. `served` says which arm started a job, for a split by pool."""
    grid = _Grid(experiment, now, total_units, served)
    for job in jobs:
        grid.add(job)
    return grid.report()


class _Grid:
    """Blocks of time: a pair of windows under a split by time, else a window."""

    def __init__(self, experiment: Experiment, now: int, total_units: int, served: Mapping[str, Arm]) -> None:
        self._experiment, self._served = experiment, served
        self._end = min(now, experiment.ended_at or now)
        self._now = now
        self._paired = experiment.split == "time"
        self._length = experiment.window * (2 if self._paired else 1)
        self._whole = max(1, total_units) * experiment.window
        self.count = min(MOST_BLOCKS, (self._end - experiment.started_at) // self._length)
        self._cells: dict[tuple[int, Arm], _Cell] = {}
        self._waiting: dict[Arm, int] = {"a": 0, "b": 0}

    def _cell(self, block: int, arm: Arm) -> _Cell:
        return self._cells.setdefault((block, arm), _Cell())

    def _block(self, at: int) -> int:
        return (at - self._experiment.started_at) // self._length

    def add(self, job: JobSpan) -> None:
        """Count a job: as one that waited, and as one that ran."""
        arm = self._arm(job)
        block = self._block(job.created_at)
        if arm is not None and 0 <= block < self.count:
            cell = self._cell(block, arm)
            cell.jobs += 1
            started = self._now if job.started_at is None else job.started_at
            over = self._now if job.ended_at is None else job.ended_at
            run = max(0, over - started) / 1000
            cell.wait += max(0, started - job.created_at) / 1000
            cell.slowdown += bounded_slowdown((over - job.created_at) / 1000, run)
            self._waiting[arm] += job.started_at is None
        if job.started_at is not None:
            self._ran(job, arm, job.started_at, self._now if job.ended_at is None else job.ended_at)

    def _arm(self, job: JobSpan) -> Arm | None:
        match self._experiment.split:
            case "time":
                return self._experiment.arm_at(job.created_at)
            case "tenant":
                return self._experiment.arm_of(job.tenant)
            case "pool":
                return self._served.get(job.id)

    def _ran(self, job: JobSpan, arm: Arm | None, begin: int, end: int) -> None:
        """Spread the work of a job over the windows in which it ran; by time, each window's work is its arm's."""
        experiment, window = self._experiment, self._experiment.window
        last = experiment.started_at + self.count * self._length
        at = max(begin, experiment.started_at)
        while at < min(end, last):
            until = min(end, experiment.started_at + ((at - experiment.started_at) // window + 1) * window)
            whose = experiment.arm_at(at) if self._paired else arm
            if whose is not None:
                self._cell(self._block(at), whose).work += (until - at) * job.units
            at = until

    # -- the sum of it ------------------------------------------------------------------------------------------

    def report(self) -> ExperimentReport:
        """All blocks together."""
        both = [(self._cell(n, "a"), self._cell(n, "b")) for n in range(self.count)]
        told = [(a, b) for a, b in both if a.jobs and b.jobs]
        return ExperimentReport(
            self._experiment, self._end, self.count, self._figures("a"), self._figures("b"),
            interval_of_blocks([b.wait / b.jobs - a.wait / a.jobs for a, b in told]),
            interval_of_blocks([b.slowdown / b.jobs - a.slowdown / a.jobs for a, b in told]),
            interval_of_blocks([(b.work - a.work) / self._whole for a, b in both]),
        )  # fmt: skip

    def _figures(self, arm: Arm) -> ArmFigures:
        cells = [self._cell(n, arm) for n in range(self.count)]
        jobs = sum(cell.jobs for cell in cells)
        return ArmFigures(
            self._experiment.version(arm) or "platform", jobs, self._waiting[arm],
            sum(cell.wait for cell in cells) / max(1, jobs), sum(cell.slowdown for cell in cells) / max(1, jobs),
            sum(cell.work for cell in cells) / (self._whole * max(1, self.count)),
        )  # fmt: skip
