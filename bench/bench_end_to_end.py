"""From submission to the function: `python -m bench.bench_end_to_end [--jobs N] [--samples N]`.

Drain of queued no-op jobs by two worker processes, and the time from a submission to the start of the function on an
idle system, each step durable. Beside it Huey on SQLite in the same run, where it is installed, and the disk itself.
Times come from marks that the jobs leave; the first and last tenth of a drain are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from bench import marks
from bench.report import Table, at_least, at_most

TEXT = "x" * 100
WITHIN = 300.0
GAPS = (0.02, 0.08)


def rate(jobs: int) -> float:
    """Jobs begun per second in the middle of a drain; each must have run exactly once."""
    seen = marks.read()
    assert sorted(number for number, _ in seen) == list(range(jobs)), "a job ran twice, or not at all"
    at = sorted(when for _, when in seen)
    first, last = len(at) // 10, len(at) - len(at) // 10 - 1
    return (last - first) / ((at[last] - at[first]) / 1e9)


def latencies(submit: Callable[[int], object], samples: int) -> tuple[float, float]:
    """Milliseconds from the call to the start of the function, p50 and p99."""
    chance, taken = Random(1), []
    for number in range(10):
        submit(number)
    marks.wait(10, WITHIN)
    for number in range(samples):
        time.sleep(chance.uniform(*GAPS))
        begin = time.monotonic_ns()
        submit(number)
        marks.wait(11 + number, WITHIN)
        taken.append((marks.read()[-1][1] - begin) / 1e6)
    taken.sort()
    return statistics.median(taken), taken[int(0.99 * len(taken))]


def headgate_drain(directory: Path, jobs: int, prefetch: int) -> float:
    """Queue jobs, then start two worker processes."""
    from bench.end_to_end_app import app, noop  # noqa: PLC0415 - opened anew for every measurement

    app.move(str(directory / "jobs.db"))
    marks.clear()
    with app:
        for first in range(0, jobs, 1_000):
            app.submit_many([noop.job(number, TEXT) for number in range(first, min(first + 1_000, jobs))])
        with app.start_workers(processes=2, prefetch=prefetch):
            marks.wait(jobs, WITHIN)
    return rate(jobs)


def headgate_latency(directory: Path, samples: int) -> tuple[float, float]:
    """Submit one job at a time to idle workers."""
    from bench.end_to_end_app import app, noop  # noqa: PLC0415 - as above

    app.move(str(directory / "jobs.db"))
    marks.clear()
    with app, app.start_workers(processes=2):
        return latencies(lambda number: noop.submit(number, TEXT), samples)


def huey_consumer() -> subprocess.Popen[bytes]:
    """Two worker processes of Huey."""
    consumer = str(Path(sys.executable).parent / "huey_consumer")
    command = [consumer, "bench.end_to_end_huey.huey", "-w", "2", "-k", "process", "-q"]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": "."}, stdout=subprocess.DEVNULL)  # noqa: S603


def huey_drain(directory: Path, jobs: int) -> float:
    """The same for Huey."""
    noop = _huey(directory)
    for number in range(jobs):
        noop(number, TEXT)
    consumer = huey_consumer()
    try:
        marks.wait(jobs, WITHIN)
    finally:
        consumer.terminate()
        consumer.wait()
    return rate(jobs)


def huey_latency(directory: Path, samples: int) -> tuple[float, float]:
    """The same for Huey."""
    noop = _huey(directory)
    consumer = huey_consumer()
    try:
        return latencies(lambda number: noop(number, TEXT), samples)
    finally:
        consumer.terminate()
        consumer.wait()


def _huey(directory: Path) -> Callable[[int, str], object]:
    os.environ["BENCH_HUEY"] = str(directory / "huey.db")
    sys.modules.pop("bench.end_to_end_huey", None)
    marks.clear()
    return importlib.import_module("bench.end_to_end_huey").noop  # type: ignore[no-any-return]


def disk(directory: Path) -> float:
    """Milliseconds of an fdatasync, p50."""
    descriptor = os.open(directory / "sync", os.O_RDWR | os.O_CREAT)
    taken = []
    for _ in range(300):
        begin = time.perf_counter()
        os.pwrite(descriptor, b"x" * 4096, 0)
        os.fdatasync(descriptor)
        taken.append((time.perf_counter() - begin) * 1000)
    os.close(descriptor)
    return statistics.median(taken)


def in_turn(measure: Callable[[Path], float], rounds: int) -> float:
    """The median of some rounds, each in a directory of its own."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            found.append(measure(Path(directory)))
    return statistics.median(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    peer = importlib.util.find_spec("huey") is not None
    one = in_turn(lambda directory: headgate_drain(directory, asked.jobs, 0), asked.rounds)
    many = in_turn(lambda directory: headgate_drain(directory, asked.jobs, 128), asked.rounds)
    huey = in_turn(lambda directory: huey_drain(directory, asked.jobs), asked.rounds) if peer else None
    drain = Table(f"Drain of {asked.jobs:,} queued no-op jobs, two worker processes", ["jobs/s"])
    drain.add("one lease at a time", one, goals=[at_least(one / huey, 1, " x Huey")] if huey else [])
    drain.add("128 further leases in flight", many, goals=[at_least(many / huey, 8, " x Huey")] if huey else [])
    drain.add("Huey, SQLite", huey or "not installed")
    drain.show()
    with tempfile.TemporaryDirectory() as directory:
        sync = disk(Path(directory))
        p50, p99 = headgate_latency(Path(directory), asked.samples)
        other = huey_latency(Path(directory), asked.samples) if peer else None
    pick_up = Table("Submission to the start of the function, idle system", ["p50 ms", "p99 ms"])
    goals = [at_most(p50 / sync, 6, " x fdatasync"), *([at_most(p50 / other[0], 0.8, " x Huey")] if other else [])]
    pick_up.add("Headgate", p50, p99, goals=goals)
    pick_up.add("Huey, SQLite", *(other or ("not installed", "")))
    pick_up.add("fdatasync", sync)
    pick_up.show()


if __name__ == "__main__":
    main()
