"""Many jobs through worker processes that are killed: each acknowledged one completes, none runs twice at a time."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.worker.conftest import MakeSite, Site, lines, until
from tests.worker.jobs_app import mark

TTL = 1_500


def drain_with_kills(site: Site, path: Path, jobs: int, every: float) -> int:
    """Submit jobs and kill a worker again and again until all have completed; how many were killed."""
    workers = site.workers(3, prefetch=8)
    retry = {"attempts": 100, "initial": 0, "max": 0.1}
    marks = mark.options(retry=retry)
    handles = []
    for first in range(0, jobs, 500):
        numbers = range(first, min(first + 500, jobs))
        handles += site.app.submit_many([marks.job(str(path), number, 0.002) for number in numbers])
    assert len(handles) == jobs
    done, killed = threading.Event(), 0

    def completed() -> int:
        return site.app.status().jobs.get("completed", 0)

    until(lambda: completed() > jobs // 20)
    while completed() < jobs:
        if pids := workers.pids:
            os.kill(pids[killed % len(pids)], signal.SIGKILL)
            killed += 1
        done.wait(every)
        assert killed < 500, "it does not come to an end"
    assert site.app.status().jobs["completed"] == jobs
    return killed


def check(path: Path, jobs: int) -> None:
    """Every job has an end, and no two runs of one overlap: a killed run ends when its worker was replaced."""
    runs: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for line in lines(path):
        runs[int(line[1])].append((int(line[3]), line[0], int(line[2])))
    assert set(runs) == set(range(jobs))
    for number, told in runs.items():
        told.sort()
        ended = [entry for entry in told if entry[1] == "end"]
        assert ended, f"job {number} completed without having run to its end"
        for (_, verb, pid), (after, following, other) in pairwise(told):
            if verb == "begin" and following == "begin" and pid != other:
                assert not _alive(pid, after, told), f"job {number} ran in {pid} and {other} at the same time"


def _alive(pid: int, at: int, told: list[tuple[int, str, int]]) -> bool:
    """Whether a run that had begun before was still heard of afterwards."""
    return any(later > at and verb == "end" and other == pid for later, verb, other in told)


def test_a_thousand_jobs_survive_workers_that_are_killed(make_site: MakeSite, quick: Path) -> None:
    site = make_site(lease_ttl=TTL)
    killed = drain_with_kills(site, quick / "m", 1_000, 1.0)
    assert killed >= 1
    check(quick / "m", 1_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_jobs_survive_a_worker_killed_every_second(make_site: MakeSite, quick: Path) -> None:
    site = make_site(lease_ttl=TTL)
    killed = drain_with_kills(site, quick / "m", 10_000, 1.0)
    assert killed >= 5
    check(quick / "m", 10_000)
