"""A small mixed workload to look at: every class, different sizes, a chain, a failure, and one that must wait."""

from __future__ import annotations

from typing import Any

from headgate.core.commands import NewJob, Submit
from headgate.core.job_input import parse_job
from headgate.engine.aio import AsyncEngine
from headgate.ports import Ids

LABELS = {"demo": "yes"}


def demo_jobs(ids: Ids) -> list[NewJob]:
    """The jobs, in the order in which they are submitted."""
    made: list[NewJob] = []

    def add(name: str, script: str, **fields: Any) -> str:
        run = {"kind": "command", "argv": ["sh", "-c", script]}
        spec = parse_job({"name": name, "run": run, "labels": LABELS, **fields})
        made.append(NewJob(ids.new(), spec))
        return made[-1].id

    for number in range(1, 7):
        add(f"render-{number}", _steps(f"frame {number}", 4), priority="normal", units=15, estimated_duration=4)
    for number in range(1, 5):
        add(f"archive-{number}", _steps(f"archive {number}", 6), priority="background", units=10)
    for number in range(1, 4):
        add(f"report-{number}", _steps(f"report {number}", 2), priority="low", units=5, tenant="finance")
    fetched = add("fetch", _steps("fetch", 2), priority="normal", units=5)
    checked = add("check", _steps("check", 2), priority="normal", units=5, dependencies=[fetched])
    add("publish", "echo published", priority="high", dependencies=[checked])
    add("flaky", "echo this fails; exit 3", retry={"attempts": 3, "initial": "2s"})
    add("urgent", "echo at once", priority="high", units=1)
    add("needs-a-gpu", "nvidia-smi", priority="normal", resources={"gpu": 1})
    return made


def _steps(what: str, count: int) -> str:
    return f'for i in $(seq {count}); do echo "{what}: step $i of {count}"; sleep 1; done'


async def submit_demo(engine: AsyncEngine, ids: Ids) -> int:
    """Submit them all; how many there are."""
    jobs = demo_jobs(ids)
    await engine.do(Submit(tuple(jobs)))
    return len(jobs)
