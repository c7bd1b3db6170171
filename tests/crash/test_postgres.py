"""An engine on a real Postgres: restarts, killed connections, a killed leader, a leader that was replaced."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from headgate.bootstrap.engine import open_engine, start_engine
from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.core.verify import verify
from headgate.engine.errors import EngineStopped
from headgate.engine.questions import GetLeases
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.ports import CommitFailed, Deposed, JobQuery, Mark, StoreOwned, StoreUnavailable
from headgate.stores.postgres import PostgresStore
from headgate.system import SystemChance, SystemClock
from headgate.testing import job, worker
from tests.crash.at_rest import Told, check_promises
from tests.crash.child import SETTINGS, submission
from tests.crash.conftest import Run
from tests.stores.postgres_home import PostgresHome

WITHIN = 60.0
SECONDS_TO_ACT = 5.0


@pytest.fixture
def engine(postgres_home: PostgresHome) -> Iterator[SharedEngine]:
    engine = start_engine(postgres_home.store("leader"), SETTINGS)
    yield engine
    engine.stop()


class Waiting:
    """A standby that tells of each time it was refused."""

    def __init__(self, home: PostgresHome) -> None:
        self.refused: SimpleQueue[str] = SimpleQueue()
        store = home.store("standby")
        become_owner = store.open

        def tell() -> Mark:
            try:
                return become_owner()
            except StoreOwned as error:
                self.refused.put(str(error))
                raise

        store.open = tell  # type: ignore[method-assign,assignment]
        self.engine = SharedEngine(Writer(store, FirstFit(), SystemChance(), SETTINGS), SystemClock())


def store_of(engine: SharedEngine) -> PostgresStore:
    assert isinstance(engine.writer.store, PostgresStore)
    return engine.writer.store


def submit(engine: SharedEngine, told: Told, key: str) -> None:
    told.submitted[key] = engine.do(submission(key)).ids[0]


def run_one(engine: SharedEngine, told: Told) -> None:
    (lease,) = engine.ask(GetLeases("w"))
    engine.do(c.Start(lease.id, lease.token))
    engine.do(c.Complete(lease.id, lease.token))
    told.completed.add(lease.job_id)


def check(engine: SharedEngine, told: Told) -> None:
    store = store_of(engine)
    check_promises(store.find_jobs(JobQuery(limit=100_000)), told)
    assert store.check() == []
    engine.read(verify)


def test_a_restart_of_the_server_costs_no_acknowledged_job(postgres_home: PostgresHome, engine: SharedEngine) -> None:
    told = Told()
    engine.do(c.RegisterWorker(worker("w")))
    for number, mode in enumerate(("fast", "immediate")):
        for part in range(5):
            submit(engine, told, f"before {number} {part}")
        run_one(engine, told)
        postgres_home.server.stop(mode)
        postgres_home.server.start()
        run_one(engine, told)
        submit(engine, told, f"after {number}")
    assert engine.writer.state.epoch == 1, "it came back as the same leader"
    check(engine, told)


def test_killed_connections_cost_no_acknowledged_job(postgres_home: PostgresHome, engine: SharedEngine) -> None:
    told = Told()
    engine.do(c.RegisterWorker(worker("w")))
    for number in range(60):
        if number % 4 == 0:
            with engine._turn:  # between two commits, or its number of the connection may be of yesterday
                postgres_home.end_backend(store_of(engine))
        submit(engine, told, f"key {number}")
        run_one(engine, told)
    assert len(told.completed) == 60
    check(engine, told)


def test_a_server_that_stays_away_stops_the_engine_and_comes_back_to_it(postgres_home: PostgresHome) -> None:
    engine = start_engine(postgres_home.store("leader", patience_seconds=0.2), SETTINGS)
    told = Told()
    submit(engine, told, "kept")
    postgres_home.server.stop("immediate")
    try:
        with pytest.raises(CommitFailed):
            engine.do(c.Submit((c.NewJob("lost", job("lost")),)))
        with engine._turn:
            engine.rounds.pass_time(engine.clock.now())
        assert engine.problem is not None
        with pytest.raises((EngineStopped, StoreUnavailable)):
            engine.do(submission("refused"))
    finally:
        postgres_home.server.start()
    assert engine.recovered(WITHIN)
    submit(engine, told, "next")
    check(engine, told)
    engine.stop()


def test_a_second_engine_is_told_who_leads(postgres_home: PostgresHome, engine: SharedEngine) -> None:
    with pytest.raises(StoreOwned, match="owned by leader"):
        open_engine(postgres_home.url, SETTINGS)


def test_a_standby_acts_within_seconds_of_the_death_of_the_leader(
    postgres_home: PostgresHome, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = run("leader", postgres_home.url)
    told = Told()
    told.take([leader.line() for _ in range(40)])
    waiting = Waiting(postgres_home)
    with ThreadPoolExecutor() as pool:
        started = pool.submit(waiting.engine.start, standby=True)
        waiting.refused.get(timeout=WITHIN)
        last = leader.kill()
        killed = time.perf_counter()  # noqa: TID251 - this measures
        standby = started.result(timeout=WITHIN)
        submit(standby, told, "first of the standby")
        acting = time.perf_counter() - killed  # noqa: TID251
    told.take(last)
    with capsys.disabled():
        sys.stdout.write(f"\n  leader killed with -9: the standby had committed after {acting:.2f} s\n")
    assert acting < SECONDS_TO_ACT
    assert standby.writer.state.epoch == 2
    check(standby, told)
    standby.stop()


def test_a_standby_can_be_stopped_while_it_waits(postgres_home: PostgresHome, engine: SharedEngine) -> None:
    waiting = Waiting(postgres_home)
    with ThreadPoolExecutor() as pool:
        started = pool.submit(waiting.engine.start, standby=True)
        waiting.refused.get(timeout=WITHIN)
        waiting.engine.stop()
        with pytest.raises(EngineStopped, match="while it stood by"):
            started.result(timeout=WITHIN)


def test_a_leader_that_was_replaced_steps_down(postgres_home: PostgresHome, engine: SharedEngine) -> None:
    told = Told()
    submit(engine, told, "kept")
    stepped_down = threading.Event()
    engine.on_deposed = stepped_down.set
    with engine._turn:  # it does not notice that it lost its connection before the other one is there
        postgres_home.end_backend(store_of(engine))
        other = start_engine(postgres_home.store("other"), SETTINGS)
    with pytest.raises((Deposed, EngineStopped)):
        engine.do(submission("late"))
    assert stepped_down.wait(WITHIN)
    assert "other" in (engine.problem or "")
    submit(other, told, "next")
    check(other, told)
    keys = [view.job.key for view in store_of(other).find_jobs(JobQuery())]
    other.stop()
    assert keys == ["next", "kept"]
