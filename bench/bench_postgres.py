"""The Postgres store beside what psycopg alone reaches on the same server, table and disk.

    python -m bench.bench_postgres [--quick]

Every commit is durable (fsync on). Raw and store take turns, so that a disturbance of the machine hits both; figures
are medians and best turns. A life is three durable steps (submit, claim, complete) of 64 clients who share each commit.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from threading import Thread

import psycopg

from bench.report import Table, Timing, at_least, seconds
from headgate.ports import Batch, EndRow, JobRow, LeaseRow, Mark
from headgate.stores.postgres import PostgresStore
from headgate.stores.postgres.tables import JOB
from headgate.system import SystemChance
from tools.postgres_server import PostgresServer

CLIENTS = 64
BULK = 1_000
SPEC = bytes(150)
EFFECTS = bytes(24)
"""Of the journal, for each change."""
LIVE = 100_000


class Owner:
    """An open store and the numbers that an engine keeps beside it."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url, SystemChance(), "bench")
        mark: Mark = self.store.open()
        self.epoch, self.number, self.seq, self.tokens = mark.epoch, mark.number, mark.seq, mark.tokens

    def commit(
        self, changes: int, jobs: list[JobRow], leases: list[LeaseRow], gone: list[int], ends: list[EndRow]
    ) -> None:
        self.number += 1
        batch = Batch(self.number, self.epoch, 1, self.seq, self.tokens, 0, EFFECTS * changes)
        batch.jobs, batch.leases, batch.leases_gone, batch.ends = jobs, leases, gone, ends
        self.store.write(batch)
        self.store.seal()

    def jobs(self, n: int) -> list[JobRow]:
        self.seq += n
        return [job(seq) for seq in range(self.seq - n + 1, self.seq + 1)]

    def submit(self, n: int) -> None:
        self.commit(n, self.jobs(n), [], [], [])

    def life(self, n: int) -> None:
        """Submit, claim and complete n jobs, each step durable before the next."""
        self.submit(n)
        seqs = range(self.seq - n + 1, self.seq + 1)
        self.tokens += n
        self.commit(n, [], [lease(seq) for seq in seqs], [], [])
        self.commit(n, [], [], list(seqs), [end(seq) for seq in seqs])


def job(seq: int) -> JobRow:
    return JobRow(seq, f"01J{seq:023}", 1, "queued", "default", "generic", "", "normal", 1, None, None, SPEC)


def lease(seq: int) -> LeaseRow:
    return LeaseRow(seq, f"1-{seq}", 1 << 40 | seq, "worker-1", None, 2, 2, 30_000, 1, None, None)


def end(seq: int) -> EndRow:
    return EndRow(seq, "completed", 3, 1, 2, "worker-1", f"1-{seq}", 1 << 40 | seq, "complete", SPEC[:16], None, b"{}")


class Raw:
    """psycopg alone, on a table like ours without a second index."""

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(JOB.columns, JOB.types, strict=True))
        self._conn.execute(f"CREATE TABLE raw ({columns}, PRIMARY KEY (seq))".encode())
        self._one = f"INSERT INTO raw VALUES ({', '.join(['%b'] * len(JOB.columns))})".encode()  # noqa: S608
        arrays = ", ".join(f"%b::{kind}[]" for kind in JOB.types)
        self._many = f"INSERT INTO raw SELECT * FROM unnest({arrays})".encode()  # noqa: S608
        self._seqs = count(1)

    def insert_one(self) -> None:
        self._conn.execute(self._one, job(next(self._seqs)), prepare=True)

    def insert_many(self) -> None:
        rows = [job(next(self._seqs)) for _ in range(BULK)]
        self._conn.execute(self._many, [list(column) for column in zip(*rows, strict=True)], prepare=True)


def in_turns(turns: int, works: dict[str, tuple[Callable[[], object], int]]) -> dict[str, Timing]:
    """Each piece of work so many times a turn; seconds for one."""
    runs: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, (work, times) in works.items():
            took = seconds(lambda work=work, times=times: [work() for _ in range(times)]) / times  # type: ignore[misc]
            if turn:  # the first one warms up
                runs[name].append(took)
    return {name: Timing(tuple(values)) for name, values in runs.items()}


def show_commits(server: PostgresServer, turns: int) -> None:
    owner, raw = Owner(f"{server.url}&schema=commits"), Raw(server.url)
    works: dict[str, tuple[Callable[[], object], int]] = {
        "raw one": (raw.insert_one, 300),
        "one": (lambda: owner.submit(1), 300),
        "raw bulk": (raw.insert_many, 10),
        "bulk": (lambda: owner.submit(BULK), 10),
        "life": (lambda: owner.life(CLIENTS), 30),
    }
    took = in_turns(turns, works)
    assert sum(owner.store.counts().values()) == owner.seq
    owner.store.close()
    table = Table("durable work per second", ["median", "best", "of raw (median)"])
    for label, name, size, beside in (
        ("psycopg: insert one", "raw one", 1, ""),
        ("store: commit of one job", "one", 1, "raw one"),
        ("psycopg: unnest of 1,000", "raw bulk", BULK, ""),
        ("store: commit of 1,000 jobs", "bulk", BULK, "raw bulk"),
        ("store: lives of 64 clients, three commits each", "life", CLIENTS, "raw one"),
    ):
        ratio = took[beside].median / took[name].median * (CLIENTS if name == "life" else 1) if beside else ""
        goals = [at_least(ratio, 6, " x raw one")] if name == "life" and isinstance(ratio, float) else []
        table.add(label, size / took[name].median, size / took[name].best, ratio, goals=goals)
    table.show()


def show_recovery(url: str) -> None:
    owner = Owner(url)
    for _ in range(LIVE // 5_000):
        owner.submit(5_000)
    owner.store.close()
    again = PostgresStore(url, SystemChance(), "bench")
    opening = seconds(again.open)
    loading = seconds(lambda: sum(1 for _ in again.live_jobs()))
    again.close()
    table = Table("recovery", ["open, s", "load, s"])
    table.add(f"{LIVE:,} live jobs", opening, loading)
    table.show()


def show_takeover(url: str, times: int) -> None:
    runs = Timing(tuple(takeover(url) for _ in range(times)))
    table = Table("leader killed with -9, until the standby leads", ["median, s", "longest, s"])
    table.add(f"{times} times", runs.median, max(runs.runs))
    table.show()


def takeover(url: str) -> float:
    command = [sys.executable, "-m", "bench.bench_postgres", "--lead", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as leader:  # noqa: S603  ourselves
        assert leader.stdout is not None
        for _ in range(100):
            next(leader.stdout)
        standby = PostgresStore(url, SystemChance(), "standby")
        thread = Thread(target=standby.standby)
        thread.start()
        for _ in range(500):
            next(leader.stdout)
        leader.send_signal(signal.SIGKILL)
        took = seconds(thread.join)
    standby.close()
    return took


def lead(url: str) -> None:
    """Commit until killed."""
    owner = Owner(url)
    while True:
        owner.submit(1)
        print(owner.seq, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--lead", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lead:
        lead(arguments.lead)
        return
    server = PostgresServer()
    server.start()
    try:
        show_commits(server, 3 if arguments.quick else 15)
        show_recovery(f"{server.url}&schema=recovery")
        show_takeover(f"{server.url}&schema=takeover", 3 if arguments.quick else 10)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
