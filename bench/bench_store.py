"""What a commit through the SQLite store costs beside the same work by hand: `python -m bench.bench_store [--full]`.

Both sides run in turns on the same disk, each on a file of its own; the medians of the rounds are compared. Absolute
figures move with whatever else the disk has to do, the ratios much less.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from headgate.ports import Batch, EndRow, JobQuery, JobRow, LeaseRow, Mark
from headgate.stores.sqlite import SqliteStore

ROUNDS = 5
SINGLE_ROUNDS = 15  # short ones: a busy disk changes its mind from one second to the next
SPEC = b"x" * 150
NOW = 1_700_000_000_000

Work = Callable[[Path], float]
"""Does its work in a new directory and says how much of it went by in a second."""


def job_of(seq: int) -> JobRow:
    return JobRow(
        seq, f"01JABCDEFGHJKMNPQ{seq:09}", NOW, "queued", "default", "generic", "job", "normal", 1, None, None, SPEC
    )


def lease_of(seq: int) -> LeaseRow:
    return LeaseRow(seq, f"1-{seq}", 1 << 40 | seq, "worker-1", None, NOW, NOW, 30_000, 1, None, None)


def end_of(seq: int) -> EndRow:
    lease = f"1-{seq}"
    return EndRow(
        seq, "completed", NOW + seq, 1, NOW, "worker-1", lease, 1 << 40 | seq, "complete", b"d" * 16, None, b"null"
    )


class Committer:
    """A store with the numbers of its next batch."""

    def __init__(self, directory: Path) -> None:
        self.store = SqliteStore(directory / "store.db")
        self.mark: Mark = self.store.open()
        self.number = 0

    def commit(self, **content: Any) -> None:
        self.number += 1
        self.store.write(
            Batch(number=self.number, epoch=self.mark.epoch, at=NOW, seq=10**9, tokens=0, low_water=0, **content)
        )
        self.store.seal()


def raw_connection(directory: Path) -> apsw.Connection:
    """The same durability without a store: one table with the bytes of a job."""
    connection = apsw.Connection(str(directory / "raw.db"))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("wal_autocheckpoint", 4_000)
    connection.execute("CREATE TABLE job (seq INTEGER PRIMARY KEY, id TEXT, name TEXT, spec BLOB) STRICT")
    return connection


def rate(count: int, work: Callable[[], None]) -> float:
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    gc.enable()
    return count / seconds


def raw_single(count: int) -> Work:
    def run(directory: Path) -> float:
        connection = raw_connection(directory)

        def work() -> None:
            for seq in range(count):
                connection.execute("INSERT INTO job VALUES (?, ?, ?, ?)", (seq, f"id {seq}", "job", SPEC))

        return rate(count, work)

    return run


def raw_bulk(count: int, size: int) -> Work:
    def run(directory: Path) -> float:
        connection = raw_connection(directory)
        batches = [[(n, f"id {n}", "job", SPEC) for n in range(start, start + size)] for start in range(0, count, size)]

        def work() -> None:
            for batch in batches:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO job VALUES (?, ?, ?, ?)", batch)
                connection.execute("COMMIT")

        return rate(count, work)

    return run


def submits(count: int, size: int) -> Work:
    def run(directory: Path) -> float:
        committer = Committer(directory)
        batches = [[job_of(n + 1) for n in range(start, start + size)] for start in range(0, count, size)]
        journal = b"j" * 60 * size

        def work() -> None:
            for batch in batches:
                committer.commit(jobs=batch, journal=journal)

        result = rate(count, work)
        assert sum(1 for _ in committer.store.live_jobs()) == count
        committer.store.close()
        return result

    return run


def cycles(count: int, size: int) -> Work:
    """Each commit ends the jobs that were granted in the one before and grants as many."""

    def run(directory: Path) -> float:
        committer = Committer(directory)
        committer.commit(jobs=[job_of(n + 1) for n in range(count)])
        groups = [range(start + 1, start + 1 + size) for start in range(0, count, size)]
        granted = [[lease_of(seq) for seq in group] for group in groups]
        ended = [[end_of(seq) for seq in group] for group in groups]
        journal = b"j" * 150 * size

        def work() -> None:
            committer.commit(leases=granted[0], journal=journal)
            for last in range(len(groups) - 1):
                committer.commit(
                    leases=granted[last + 1], ends=ended[last], leases_gone=list(groups[last]), journal=journal
                )
            committer.commit(ends=ended[-1], leases_gone=list(groups[-1]), journal=journal)

        result = rate(count, work)
        assert len(committer.store.recent_ends(count)) == count
        committer.store.close()
        return result

    return run


def medians(*works: Work, rounds: int = ROUNDS) -> list[float]:
    """Run all in turns; what each reached in the middle of its rounds."""
    rates: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, reached in zip(works, rates, strict=True):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                reached.append(work(Path(directory)))
    return [statistics.median(reached) for reached in rates]


def compare(title: str, raw: float, ours: float) -> None:
    print(f"{title:<44} {raw:>11,.0f} {ours:>11,.0f} {ours / raw:>7.2f}")


def load(count: int) -> None:
    """How long a restart takes before the engine builds its state."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        committer = Committer(Path(directory))
        for start in range(0, count, 10_000):
            committer.commit(jobs=[job_of(n + 1) for n in range(start, start + 10_000)], journal=b"j" * 600_000)
        committer.commit(leases=[lease_of(seq + 1) for seq in range(1_000)])
        committer.store.close()
        store = SqliteStore(Path(directory) / "store.db")
        times: dict[str, str] = {}

        def timed(name: str, work: Callable[[], object]) -> None:
            wall, processor = time.perf_counter(), time.process_time()
            work()
            times[name] = f"{time.perf_counter() - wall:.3f} s ({time.process_time() - processor:.3f} s of processor)"

        gc.collect()
        gc.freeze()
        timed("open with quick_check", store.open)
        timed("live jobs", lambda: sum(1 for _ in store.live_jobs()))
        timed("recent ends", lambda: store.recent_ends(10_000))
        timed("counts", store.counts)
        timed("a page of jobs", lambda: store.find_jobs(JobQuery()))
        store.close()
        print(f"{count:>9,} live jobs: " + ", ".join(f"{name} {took}" for name, took in times.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also load 1,000,000 live jobs")
    full = parser.parse_args().full
    print(f"{'per second, medians of rounds in turns':<44} {'raw':>11} {'store':>11} {'ratio':>7}")
    raw, one, cycle = medians(raw_single(400), submits(400, 1), cycles(400, 1), rounds=SINGLE_ROUNDS)
    compare("one job a commit (goal 0.65)", raw, one)
    compare("end one, grant one a commit (goal 0.55)", raw, cycle)
    raw_many, many, ends = medians(raw_bulk(100_000, 1_000), submits(100_000, 1_000), cycles(100_000, 1_000))
    compare("jobs in batches of 1,000 (goal 0.35)", raw_many, many)
    compare("end and grant 1,000 a commit", raw_many, ends)
    (hundred,) = medians(cycles(20_000, 100))
    compare("end and grant 100 a commit, to one raw row", raw, hundred)
    load(100_000)
    if full:
        load(1_000_000)


if __name__ == "__main__":
    main()
