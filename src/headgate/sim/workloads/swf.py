"""The Standard Workload Format of the Parallel Workloads Archive: 18 fields a job, `;` before a line of the header.

A rigid parallel machine of P processors is one worker, and a processor is a capacity unit: a job holds its units
from its start to its end. Records are repaired the way the literature does: the estimate is at least the run time,
a run is cut at the estimate, and a job that never ran is left out. Whatever is repaired or left out is counted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from headgate.core.job import DEFAULT_TENANT, JobKind, JobSpec
from headgate.sim.workloads.files import lines_of, stem_of
from headgate.sim.workloads.model import Kinds, Problems, SimJob, Workload, in_order

FIELDS = 18
_HEADER = re.compile(r";\s*([A-Za-z0-9]+)\s*:\s*(.*)")
_UNIT = re.compile(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*s\b")


class Record(NamedTuple):
    """The fields that a simulation needs; -1 is "not known"."""

    number: str
    submit: int
    run: int
    allocated: int
    requested: int
    estimate: int
    status: int
    user: str
    queue: str


def read_swf(
    path: str | Path,
    *,
    tenants: bool = False,
    processors: Literal["requested", "allocated"] = "requested",
    perfect_estimates: bool = False,
) -> Workload:
    """Read a log. `tenants` makes every user a tenant; otherwise the user is only kept for the statistics."""
    reader = _Reader(tenants=tenants, allocated_first=processors == "allocated", perfect=perfect_estimates)
    for number, line in lines_of(path):
        reader.line(number, line)
    jobs, tick = in_order(reader.jobs), min(reader.unit, 0.001)
    return Workload(stem_of(path), jobs, reader.max_procs, tick, reader.problems, reader.header)


class _Reader:
    def __init__(self, *, tenants: bool, allocated_first: bool, perfect: bool) -> None:
        self.tenants, self.allocated_first, self.perfect = tenants, allocated_first, perfect
        self.jobs: list[SimJob] = []
        self.header: dict[str, str] = {}
        self.problems = Problems()
        self.unit = 1.0
        self.max_procs: int | None = None
        self._kinds = Kinds()
        self._seen: set[str] = set()

    def line(self, number: int, line: str) -> None:
        if line.startswith(";"):
            self._header(number, line)
            return
        record = self._parse(number, line)
        job = self._job(number, record) if record is not None else None
        if job is not None:
            self.jobs.append(job)

    def _header(self, number: int, line: str) -> None:
        found = _HEADER.match(line)
        if found is None:
            return
        name, value = found[1], found[2].strip()
        self.header[name] = value
        if name == "MaxProcs":
            if value.split(" ")[0].isdigit():
                self.max_procs = int(value.split(" ")[0])
            else:
                self.problems.add("header", number, f"MaxProcs is {value!r}, not a number")
        unit = _UNIT.match(value) if name == "TimeUnit" else None
        if unit is not None:
            self.unit = float(unit[1])

    def _parse(self, number: int, line: str) -> Record | None:
        parts = line.split()
        if len(parts) != FIELDS:
            self.problems.add("fields", number, f"{len(parts)} fields where {FIELDS} are due; left out")
            return None
        try:
            submit, run, allocated, requested, estimate, status = (_whole(parts[n]) for n in (1, 3, 4, 7, 8, 10))
        except (ValueError, OverflowError):
            self.problems.add("number", number, "a field is not a number; left out")
            return None
        return Record(parts[0], submit, run, allocated, requested, estimate, status, parts[11], parts[14])

    def _job(self, number: int, record: Record) -> SimJob | None:
        """Repair a record, or leave it out and say so."""
        procs = self._procs(number, record)
        if procs is None or not self._runs(number, record):
            return None
        estimate, run = self._times(number, record)
        scale = 1 if self.unit < 0.001 else round(self.unit * 1000)
        kind = JobKind(
            type="batch",
            tenant=f"u{record.user}" if self.tenants and record.user != "-1" else DEFAULT_TENANT,
            units=procs,
            estimated_duration=estimate * scale,
        )
        spec = JobSpec(self._kinds.of(kind), record.number)
        return SimJob(record.number, record.submit * scale, run * scale, spec, user=record.user)

    def _procs(self, number: int, record: Record) -> int | None:
        given = (record.allocated, record.requested) if self.allocated_first else (record.requested, record.allocated)
        procs = next((count for count in given if count > 0), None)
        if procs is None:
            self.problems.add("processors", number, "no number of processors; left out")
        elif self.max_procs is not None and procs > self.max_procs:
            self.problems.add("too large", number, f"{procs} processors on a machine of {self.max_procs}; left out")
            return None
        return procs

    def _runs(self, number: int, record: Record) -> bool:
        if record.run <= 0:
            self.problems.add("never ran", number, f"run time {record.run}; left out")
        elif record.submit < 0:
            self.problems.add("submit", number, f"submitted at {record.submit}; left out")
        elif record.number in self._seen:
            self.problems.add("number twice", number, f"job {record.number} was there before; left out")
        else:
            self._seen.add(record.number)
            return True
        return False

    def _times(self, number: int, record: Record) -> tuple[int, int]:
        if self.perfect:
            return record.run, record.run
        if record.estimate <= 0:
            self.problems.add("no estimate", number, "no time was requested; the run time stands in")
            return record.run, record.run
        if record.run > record.estimate:
            self.problems.add("overran", number, f"ran {record.run} of {record.estimate}; cut at what was requested")
        return record.estimate, min(record.run, record.estimate)


def _whole(text: str) -> int:
    """Logs write 12, and some write 12.0 or 12.5."""
    return int(text) if text.lstrip("-").isdigit() else int(float(text))
