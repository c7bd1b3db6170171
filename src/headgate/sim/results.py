"""Results: what came of a simulation, as figures, per tenant and class, over time, and per job.

Times in here are seconds. Wait runs from the submission to the first start; turnaround from the submission to the end;
bounded slowdown is turnaround against the run time, where runs below 10 s count as 10 s, and never below 1. Fairness
is Jain's index over what each tenant got: the inverse of its mean bounded slowdown. Utilisation is what was run,
in unit-seconds, against all units over the makespan.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.job import CLASSES
from headgate.policy.statistics import bounded_slowdown
from headgate.sim.numbers import Distribution, LogHistogram, distribution, jain
from headgate.sim.records import Counts, Grant, JobRecord, Sample


class Group(msgspec.Struct):
    """The jobs of one tenant or class."""

    jobs: int = 0
    wait_sum: float = 0.0
    slowdown_sum: float = 0.0
    unit_seconds: float = 0.0

    @property
    def mean_wait(self) -> float:
        """Seconds."""
        return self.wait_sum / self.jobs if self.jobs else 0.0

    @property
    def mean_slowdown(self) -> float:
        """Bounded, over the jobs of the group."""
        return self.slowdown_sum / self.jobs if self.jobs else 1.0


class Measured(msgspec.Struct):
    """What a clock on the wall said: differs from run to run, so it is kept apart from everything else."""

    seconds: float = 0.0
    policy_seconds: float = 0.0
    decisions: int = 0


class Cut(msgspec.Struct, frozen=True):
    """A run that took too long: where it was stopped, in units of the workload, and the jobs that were left."""

    at: int
    under_way: int
    """Submitted, and waiting or running."""
    to_come: int


class Results(msgspec.Struct):
    """All that is known of a run. All of it but `measured` is the same for the same workload, policy and seed."""

    policy: str
    workload: str
    seed: int
    tick: float
    jobs: int
    by_state: dict[str, int]
    wait: Distribution
    turnaround: Distribution
    slowdown: Distribution
    makespan: float
    utilisation: float
    throughput: float
    """Jobs per hour."""
    fairness: float
    deadline_misses: int
    tenants: dict[str, Group]
    classes: dict[str, Group]
    counts: Counts
    series: list[Sample] = []
    records: list[JobRecord] = []
    grants: list[Grant] = []
    measured: Measured = msgspec.field(default_factory=Measured)
    problems: list[str] = []
    """What was wrong in the file of the workload, one line a kind."""
    cut: Cut | None = None
    """Set where the run was stopped before its end: the figures are those of the jobs that had ended by then."""

    def deterministic(self) -> bytes:
        """Everything but the clock on the wall, as bytes: two runs with the same seed give the same."""
        plain = msgspec.structs.replace(self, measured=Measured())
        return msgspec.json.encode(plain, order="deterministic")


class Collector:
    """Hears what a world tells. With `keep=False` its memory does not grow with the number of jobs."""

    def __init__(self, *, tick: float, total_units: int, keep: bool = True, table: TextIO | None = None) -> None:
        self.tick, self.total_units, self.keep = tick, total_units, keep
        self.records: list[JobRecord] = []
        self.grants: list[Grant] = []
        self.series: list[Sample] = []
        self.by_state: dict[str, int] = {}
        self.tenants: dict[str, Group] = {}
        self.classes: dict[str, Group] = {}
        self.misses = self.count = 0
        self._first: int | None = None
        self._last = 0
        self._work = 0
        self._values = {name: LogHistogram() for name in ("wait", "turnaround", "slowdown")}
        self._exact: dict[str, list[float]] = {name: [] for name in self._values}
        self._table = csv.writer(table) if table is not None else None
        if self._table is not None:
            self._table.writerow(COLUMNS)

    @property
    def ended(self) -> int:
        """Jobs that have ended so far."""
        return len(self.records) if self.keep else self.count

    def on_job(self, record: JobRecord) -> None:
        """A job ended. What is kept is looked at when everything is over."""
        if self._table is not None:
            self._table.writerow(row_of(record, self.tick))
        if self.keep:
            self.records.append(record)
        else:
            self._count(record)

    def _count(self, record: JobRecord) -> None:
        self.count += 1
        self.by_state[record.state] = self.by_state.get(record.state, 0) + 1
        self._first = record.submitted if self._first is None else min(self._first, record.submitted)
        self._last = max(self._last, record.ended)
        self._work += record.run * record.units
        on_its_way = record.state in ("completed", "waiting", "running")
        late = record.deadline is not None and (record.ended > record.deadline or not on_its_way)
        self.misses += late
        if record.started is not None:
            self._figures(record)

    def _figures(self, record: JobRecord) -> None:
        wait, turnaround, slowdown = figures(record, self.tick)
        for name, value in (("wait", wait), ("turnaround", turnaround), ("slowdown", slowdown)):
            if self.keep:
                self._exact[name].append(value)
            else:
                self._values[name].add(value)
        work = record.run * record.units * self.tick
        for groups, name in ((self.tenants, record.tenant), (self.classes, CLASSES[record.job_class])):
            group = groups.setdefault(name, Group())
            group.jobs += 1
            group.wait_sum += wait
            group.slowdown_sum += slowdown
            group.unit_seconds += work

    def results(self, policy: str, workload: str, seed: int, counts: Counts) -> Results:
        """The sum of it."""
        for record in self.records:
            self._count(record)
        names = ("wait", "turnaround", "slowdown")
        wait, turnaround, slowdown = (
            distribution(self._exact[name]) if self.keep else self._values[name].distribution() for name in names
        )
        span = (self._last - (self._first or 0)) * self.tick
        whole = self.total_units * span
        return Results(
            policy, workload, seed, self.tick, self.count, dict(sorted(self.by_state.items())),
            wait, turnaround, slowdown, span,
            self._work * self.tick / whole if whole else 0.0,
            self.count / span * 3600 if span else 0.0,
            jain(1 / group.mean_slowdown for group in self.tenants.values()),
            self.misses, dict(sorted(self.tenants.items())), dict(sorted(self.classes.items())),
            counts, self.series, self.records, self.grants,
        )  # fmt: skip


def figures(record: JobRecord, tick: float) -> tuple[float, float, float]:
    """Wait, turnaround and bounded slowdown of a job that started."""
    started = record.started if record.started is not None else record.ended
    wait = (started - record.submitted) * tick
    turnaround = (record.ended - record.submitted) * tick
    return wait, turnaround, bounded_slowdown(turnaround, record.run * tick)


COLUMNS = ("job_id", "tenant", "class", "state", "units", "submitted_s", "started_s", "ended_s", "run_s", "estimate_s",
           "wait_s", "bounded_slowdown", "attempts", "preemptions", "worker")  # fmt: skip


def row_of(record: JobRecord, tick: float) -> tuple[object, ...]:
    """A job as a row of the table."""
    ran = record.started is not None
    wait, _, slowdown = figures(record, tick)
    return (
        record.id, record.tenant, CLASSES[record.job_class], record.state, record.units,
        _plain(record.submitted * tick), _plain(record.started * tick) if record.started is not None else None,
        _plain(record.ended * tick), _plain(record.run * tick),
        None if record.estimate is None else _plain(record.estimate * tick),
        _plain(wait) if ran else None, round(slowdown, 6) if ran else None,
        record.attempts, record.preemptions, record.worker,
    )  # fmt: skip


def _plain(seconds: float) -> float:
    return round(seconds, 6)


def rows(results: Results) -> Iterator[tuple[object, ...]]:
    """The table of jobs."""
    return (row_of(record, results.tick) for record in results.records)


def write_csv(results: Results, path: str | Path) -> None:
    """One row a job, in the order in which they ended."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows(results))


def write_parquet(results: Results, path: str | Path) -> None:
    """The same as Parquet; needs the extra `parquet`. Columns have the same types whatever the jobs are."""
    pyarrow, parquet = need_pyarrow()
    columns: Sequence[tuple[object, ...]] = list(zip(*rows(results), strict=True)) or [()] * len(COLUMNS)
    kinds = {name: pyarrow.float64() for name in COLUMNS}
    kinds |= {name: pyarrow.string() for name in ("job_id", "tenant", "class", "state", "worker")}
    kinds |= {name: pyarrow.int64() for name in ("units", "attempts", "preemptions")}
    table = pyarrow.table([list(column) for column in columns], schema=pyarrow.schema(list(kinds.items())))
    parquet.write_table(table, str(path))


def need_pyarrow() -> tuple[Any, Any]:
    """What writes Parquet: an extra that nobody else has to have."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InvalidInput("Parquet needs the package pyarrow: pip install headgate[parquet]", field="format") from None
