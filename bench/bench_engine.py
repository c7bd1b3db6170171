"""The engine on its stores, beside what the store alone can do: `python -m bench.bench_engine [--quick | --full]`.

Every answer counted here was durable when it came. Ours and the raw limit take turns in rounds of a fraction of a
second on the same disk, so that a neighbour's load hits both; the ratios are between medians of the rounds. Raw is
one-row commits of apsw (WAL, FULL) or psycopg, and bulk inserts in transactions of 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from pathlib import Path
from statistics import median, quantiles
from time import process_time

import msgspec

from bench.bench_store import raw_connection
from bench.engine_world import BULK, PAYLOAD, SETTINGS, AsyncClients, Clients, Jobs, lives, threads
from bench.report import Table, at_least, at_most, seconds
from headgate.bootstrap.engine import start_engine
from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.ports import Store
from headgate.stores.sqlite import SqliteStore
from headgate.system import SystemChance, SystemClock
from headgate.testing import job, worker

Turn = Callable[[], float]
"""Does a share of its work and says how much of it went by in a second."""
SPEC = msgspec.msgpack.encode(job("job", payload=PAYLOAD))


def raw_row(number: int) -> tuple[int, str, str, bytes]:
    """What the engine keeps of a job, as far as its caller said it: the same id, name and specification."""
    return (number, f"01JABCDEFGHJKMNPQ{number:09}", "job", SPEC)


def timed(work: int, do: Callable[[], object]) -> float:
    return work / seconds(do)


def again(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def in_turns(rounds: int, turns: dict[str, Turn]) -> dict[str, list[float]]:
    """Rates by name. Each takes its turn in every round; the first round warms up."""
    rates: dict[str, list[float]] = {name: [] for name in turns}
    for at in range(rounds + 1):
        for name, turn in turns.items():
            gc.collect()
            rate = turn()
            if at:
                rates[name].append(rate)
    return rates


def ratio(rates: dict[str, list[float]], ours: str, raw: str) -> float:
    """The median of the rounds' own ratios: a slow second hits both sides of one."""
    return median(mine / theirs for mine, theirs in zip(rates[ours], rates[raw], strict=True))


class RawSqlite:
    """apsw alone."""

    def __init__(self, directory: Path) -> None:
        self._connection = raw_connection(directory)
        self._numbers = count(1)

    def one(self, commits: int) -> Turn:
        def work() -> None:
            for _ in range(commits):
                self._connection.execute("INSERT INTO job VALUES (?, ?, ?, ?)", raw_row(next(self._numbers)))

        return lambda: timed(commits, work)

    def bulk(self, batches: int) -> Turn:
        def work() -> None:
            for _ in range(batches):
                rows = [raw_row(number) for number in islice(self._numbers, BULK)]
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany("INSERT INTO job VALUES (?, ?, ?, ?)", rows)
                self._connection.execute("COMMIT")

        return lambda: timed(batches * BULK, work)


@contextmanager
def engine_on(store: Store) -> Iterator[SharedEngine]:
    engine = start_engine(store, SETTINGS)
    try:
        yield engine
    finally:
        engine.stop()


def submissions(engine: SharedEngine, jobs: Jobs, callers: int, commits: int) -> Turn:
    """One job a call, by so many threads."""

    def turn() -> float:
        shares = [[jobs.submit() for _ in range(commits)] for _ in range(callers)]

        def call(mine: list[c.Submit]) -> None:
            for command in mine:
                engine.do(command)

        return timed(callers * commits, lambda: threads(call, shares))

    return turn


def bulks(engine: SharedEngine, jobs: Jobs, batches: int) -> Turn:
    def turn() -> float:
        commands = [jobs.submit(BULK) for _ in range(batches)]

        def work() -> None:
            for command in commands:
                engine.do(command)

        return timed(batches * BULK, work)

    return turn


def show_submissions(rounds: int, raw_one: Turn, raw_bulk: Turn, store: Store, title: str) -> None:
    """Jobs that only queue: no worker is there."""
    jobs = Jobs()
    with engine_on(store) as engine:
        turns: dict[str, Turn] = {"raw": raw_one, "raw bulk": raw_bulk}
        for callers in (1, 4, 16, 64):
            turns[f"{callers}"] = submissions(engine, jobs, callers, max(8, 200 // callers))
        turns["bulk"] = bulks(engine, jobs, 10)
        rates = in_turns(rounds, turns)
        assert engine.read(lambda state: state.seq) == jobs.made
    table = Table(f"{title}: durable submissions per second", ["median", "of raw (median)"])
    table.add("raw: one row a commit", median(rates["raw"]))
    for callers in (1, 4, 16, 64):
        share = ratio(rates, f"{callers}", "raw")
        goals = [at_least(share, 0.65)] if callers == 1 and "SQLite" in title else []
        table.add(f"{callers} threads, one job a call", median(rates[f"{callers}"]), share, goals=goals)
    table.add("raw: 1,000 rows a commit", median(rates["raw bulk"]))
    share = ratio(rates, "bulk", "raw bulk")
    table.add("one thread, 1,000 jobs a call", median(rates["bulk"]), share, goals=[at_least(share, 0.35)])
    table.show()


def show_latency(rounds: int, store: Store, raw_one: Callable[[], object], title: str) -> None:
    jobs = Jobs()
    ours: list[float] = []
    raw: list[float] = []
    with engine_on(store) as engine:
        for _ in range(rounds * 100):
            command = jobs.submit()
            ours.append(seconds(lambda command=command: engine.do(command)))  # type: ignore[misc]
            raw.append(seconds(raw_one))
    table = Table(f"{title}: one durable submit, microseconds", ["p50", "p99"])
    for label, values in (("raw: one row", raw), ("engine: one job", ours)):
        cuts = quantiles(values, n=100)
        table.add(label, cuts[49] * 1e6, cuts[98] * 1e6)
    table.show()


def show_lives(rounds: int, raw_one: Turn, store: Store, title: str) -> None:
    """Submit, grant, start, complete; the grant comes with the submission's commit."""
    with engine_on(store) as engine:
        one, many = Clients(engine, "one", 1), Clients(engine, "many", 64)
        cycle = Clients(engine, "cycle", 1, prefetch=1)
        turns = {
            "raw": raw_one,
            "1": lambda: timed(60, lambda: lives(one, 60)),
            "cycle": cycle.cycles(150),
            "64": lambda: timed(64 * 12, lambda: lives(many, 12)),
        }
        rates = in_turns(rounds, turns)
    table = Table(f"{title}: full lives per second (submit + grant, start, complete)", ["median", "of raw (median)"])
    table.add("raw: one row a commit", median(rates["raw"]))
    table.add("1 thread, three commits a life", median(rates["1"]), ratio(rates, "1", "raw"))
    share = ratio(rates, "cycle", "raw")
    goals = [at_least(share, 0.55)] if "SQLite" in title else []
    table.add("1 thread, end + start + grant in one commit", median(rates["cycle"]), share, goals=goals)
    table.add("64 threads", median(rates["64"]), ratio(rates, "64", "raw"))
    table.show()


def show_loop(rounds: int, raw_one: Turn, store: Store, title: str) -> None:
    """Callers on one event loop, as in the server."""

    async def main() -> dict[str, list[float]]:
        async with AsyncClients(store) as clients:
            rates: dict[str, list[float]] = {"raw": [], "submit": [], "1": [], "64": [], "512": []}
            for at in range(rounds + 1):
                gc.collect()
                turn = {
                    "raw": raw_one(),
                    "submit": await clients.submissions(64, 20),
                    "1": await clients.lives(1, 60),
                    "64": await clients.lives(64, 15),
                    "512": await clients.lives(512, 4),
                }
                for name, rate in turn.items():
                    if at:
                        rates[name].append(rate)
            return rates

    rates = asyncio.run(main())
    table = Table(f"{title}: callers on one event loop, per second", ["median", "of raw (median)"])
    table.add("raw: one row a commit", median(rates["raw"]))
    table.add("64 callers, one job a call", median(rates["submit"]), ratio(rates, "submit", "raw"))
    table.add("1 client, full lives", median(rates["1"]), ratio(rates, "1", "raw"))
    share = ratio(rates, "64", "raw")
    goals = [at_least(share, 6)] if "SQLite" in title else []
    table.add("64 clients, full lives", median(rates["64"]), share, goals=goals)
    table.add("512 clients, full lives", median(rates["512"]), ratio(rates, "512", "raw"))
    table.show()


def show_recovery(directory: Path, sizes: list[int]) -> None:
    """The file is looked through while the state is rebuilt: where a core is free, all takes less than the sum."""
    table = Table("SQLite: recovery", ["check alone, s", "all, s", "all, s of processor"])
    for size in sizes:
        path = directory / f"recovery-{size}.db"
        jobs = Jobs()
        with engine_on(SqliteStore(path)) as engine:
            for _ in range(size // 10_000):
                engine.do(jobs.submit(10_000))
        writer = Writer(SqliteStore(path), FirstFit(), SystemChance(), SETTINGS)
        opening = seconds(writer.store.open)
        gc.collect()
        began = process_time()
        whole = seconds(lambda writer=writer: writer.open(SystemClock().now()))  # type: ignore[misc]
        spent = process_time() - began
        assert len(writer.state.jobs) == size
        goals = [at_most(whole, 3, " s")] if size == 1_000_000 else []
        table.add(f"{size:,} live jobs", opening, whole, spent, goals=goals)
        writer.close()
        del writer
    table.show()


def show_heartbeats(store: Store, leases: int) -> None:
    """What renewing every lease once takes of a core, as a share of the ten seconds in which it has to happen."""
    jobs = Jobs()
    with engine_on(store) as engine:
        engine.do(c.RegisterWorker(worker("w", slots=leases)))
        for _ in range(leases // BULK):
            engine.do(jobs.submit(BULK))
        held = engine.read(lambda state: [(lease.id, lease.token) for lease in state.leases.values()])
        assert len(held) == leases
        single = [c.Heartbeat(*beat) for beat in held]
        joint = [c.Heartbeats(tuple(held[at : at + 100])) for at in range(0, leases, 100)]
        table = Table(f"heartbeats of {leases:,} leases", ["per second", "% of a core at one in 10 s"])
        for label, commands in (("one a call", single), ("100 a call", joint)):
            began = process_time()
            took = seconds(lambda commands=commands: [engine.do(command) for command in commands])  # type: ignore[misc]
            share = (process_time() - began) / 10 * 100 * 10_000 / leases
            table.add(label, leases / took, share, goals=[at_most(share, 1, " %")])
    table.show()


def sqlite(arguments: argparse.Namespace) -> None:
    rounds = 5 if arguments.quick else 15
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        raw = RawSqlite(directory)
        one = raw.one(200)
        show_submissions(rounds, one, raw.bulk(10), SqliteStore(directory / "submit.db"), "SQLite")
        show_latency(rounds, SqliteStore(directory / "latency.db"), raw.one(1), "SQLite")
        show_lives(rounds, one, SqliteStore(directory / "lives.db"), "SQLite")
        show_loop(rounds, one, SqliteStore(directory / "loop.db"), "SQLite")
        show_heartbeats(SqliteStore(directory / "beats.db"), 10_000)
        show_recovery(directory, [100_000, 1_000_000] if arguments.full else [100_000])


def postgres(arguments: argparse.Namespace) -> None:
    from bench.bench_postgres import Raw  # noqa: PLC0415 - an optional extra
    from headgate.stores.postgres import PostgresStore  # noqa: PLC0415
    from tools.postgres_server import NoPostgres, PostgresServer  # noqa: PLC0415

    rounds = 5 if arguments.quick else 15
    with ExitStack() as stack:
        try:
            server = PostgresServer()
        except NoPostgres as reason:
            print(f"NOTHING ABOUT POSTGRES IS MEASURED: {reason}")
            return
        stack.callback(server.remove)
        server.start()
        raw = Raw(server.url)

        def one() -> float:
            return timed(200, lambda: again(raw.insert_one, 200))

        def bulk() -> float:
            return timed(5 * BULK, lambda: again(raw.insert_many, 5))

        def store(schema: str) -> Store:
            return PostgresStore(f"{server.url}&schema={schema}", SystemChance(), "bench")

        show_submissions(rounds, one, bulk, store("submit"), "Postgres")
        show_lives(rounds, one, store("lives"), "Postgres")
        show_loop(rounds, one, store("loop"), "Postgres")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--full", action="store_true", help="also recover 1,000,000 live jobs")
    parser.add_argument("--only", choices=["sqlite", "postgres"], help="one store")
    arguments = parser.parse_args()
    if arguments.only != "postgres":
        sqlite(arguments)
    if arguments.only != "sqlite":
        postgres(arguments)


if __name__ == "__main__":
    main()
