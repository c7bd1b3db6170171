"""An engine on Postgres while its connections are killed twice a second, and while the server is restarted.

    python -m bench.bench_postgres_faults [--quick]

Threads submit jobs one by one and count what was acknowledged. Undisturbed and disturbed spells take turns, so that a
busy machine slows both. At the end every acknowledged job is in the database, once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count
from statistics import median
from threading import Event, Thread
from time import perf_counter

import psycopg

from bench.report import Table, at_least, at_most
from headgate.bootstrap.engine import start_engine
from headgate.core import commands as c
from headgate.core.settings import Settings
from headgate.engine.shared import SharedEngine
from headgate.stores.postgres import PostgresStore
from headgate.system import SystemChance
from headgate.testing import job
from tools.postgres_server import PostgresServer

CLIENTS = 16
KILLS_PER_SECOND = 2
_KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate'"


class Clients:
    """Threads that submit until they are told to stop."""

    def __init__(self, engine: SharedEngine) -> None:
        self._engine = engine
        self._numbers = count()
        self._enough = Event()
        self.acknowledged: list[int] = [0] * CLIENTS
        self._threads = [Thread(target=self._go_on, args=(place,)) for place in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _go_on(self, place: int) -> None:
        spec = job("job")
        while not self._enough.is_set():
            self._engine.do(c.Submit((c.NewJob(f"job-{next(self._numbers):012}", spec),)))
            self.acknowledged[place] += 1

    def total(self) -> int:
        return sum(self.acknowledged)

    def stop(self) -> int:
        self._enough.set()
        for thread in self._threads:
            thread.join()
        return self.total()


def rate(clients: Clients, spell: float, disturb: Callable[[], object] | None) -> float:
    """Acknowledgements per second in a spell; what disturbs does so twice a second."""
    pause, before, began = Event(), clients.total(), perf_counter()
    while (left := spell - (perf_counter() - began)) > 0:
        pause.wait(min(left, 1 / KILLS_PER_SECOND))
        if disturb is not None:
            disturb()
    return (clients.total() - before) / (perf_counter() - began)


def back_after(clients: Clients, wanted: float, server: PostgresServer) -> float:
    """Seconds from the restart of the server until half a second in a row goes at the wanted rate."""
    server.stop()
    server.start()
    began = perf_counter()
    while rate(clients, 0.5, None) < wanted and perf_counter() - began < 60:
        continue
    return perf_counter() - began - 0.5


def show(server: PostgresServer, turns: int, spell: float) -> None:
    engine = start_engine(
        PostgresStore(f"{server.url}&schema=faults", SystemChance(), "bench"), Settings(fixed_busy=10)
    )
    clients = Clients(engine)
    killer = psycopg.connect(server.url, autocommit=True)
    rate(clients, spell, None)  # to warm up
    calm, stormy = [], []
    for _ in range(turns):
        calm.append(rate(clients, spell, None))
        stormy.append(rate(clients, spell, lambda: killer.execute(_KILL)))
    killer.close()
    restarts = [back_after(clients, 0.95 * median(calm), server) for _ in range(turns)]
    told = clients.stop()
    kept = sum(engine.writer.store.counts().values())
    engine.stop()
    if kept != told:
        raise SystemExit(f"{told} jobs were acknowledged, {kept} are in the database")
    share = median(stormy) / median(calm)
    table = Table("acknowledged submissions per second", ["undisturbed", "disturbed", "of undisturbed"])
    goals = [at_least(share, 0.95)]
    table.add(f"connections killed {KILLS_PER_SECOND} times a second", median(calm), median(stormy), share, goals=goals)
    table.show()
    table = Table("server restarted, until 95 % of the rate is back", ["median, s", "longest, s"])
    table.add(f"{turns} times", median(restarts), max(restarts), goals=[at_most(max(restarts), 60, " s")])
    table.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    quick = parser.parse_args().quick
    server = PostgresServer()
    server.start()
    try:
        show(server, 2 if quick else 5, 5.0 if quick else 10.0)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
