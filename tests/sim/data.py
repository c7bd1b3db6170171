"""Real workloads, where they are at hand, and small ones that always are."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headgate.core.job import JobKind, JobSpec
from headgate.sim.workloads.model import SimJob, Workload

WORKLOADS = Path(__file__).parents[3] / "shared" / "workloads"
needs_data = pytest.mark.skipif(
    not (WORKLOADS / "REFERENCE.json").is_file(), reason="the reference workloads are not at hand (../shared/workloads)"
)


def reference() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((WORKLOADS / "REFERENCE.json").read_text())
    return found


def published_starts(log: str, policy: str) -> dict[str, int]:
    with gzip.open(WORKLOADS / f"hpc/schedules/{log}.starts.csv.gz", "rt") as file:
        return {row["job_id"]: int(row[policy]) for row in csv.DictReader(file)}


def sim_job(name: str, at: int, run: int, units: int = 1, estimate: int | None = None, **kind: Any) -> SimJob:
    """A job in milliseconds; its estimate is its run time unless given."""
    of = JobKind(units=units, estimated_duration=run if estimate is None else estimate, **kind)
    return SimJob(name, at, run, JobSpec(of, name))


def workload(*jobs: SimJob, processors: int | None = None, name: str = "small") -> Workload:
    return Workload(name, list(jobs), processors)
