"""What a server, a network and other engines do to the Postgres store: nothing acknowledged is lost or done twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest

from headgate.ports import CommitFailed, Deposed, JobQuery, Mark, StoreOwned, StoreUnavailable
from headgate.stores.postgres import PostgresStore
from headgate.testing.store_conformance import Writer, job_row
from tests.stores.postgres_home import Fault, Link, PostgresHome

CUT = "lose the reply and keep the server's end open"


@pytest.fixture
def link(postgres_home: PostgresHome) -> Iterator[Link]:
    link = Link(postgres_home.server)
    yield link
    postgres_home.close()
    link.close()


@pytest.fixture
def waiting() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def through(home: PostgresHome, link: Link) -> str:
    """The URL of the home, by way of the link."""
    tcp = home.server.tcp_url.replace(f":{home.server.port}/", f":{link.port}/")
    return f"{tcp}?schema={home.schema}&sslmode=disable&gssencmode=disable"


def seqs(writer: Writer) -> list[int]:
    """All jobs that the store holds."""
    return [view.job.seq for view in writer.store.find_jobs(JobQuery(order="oldest", limit=10_000))]


# -- lost connections ---------------------------------------------------------------------------------------------


def test_a_restarted_server_costs_no_commit_and_no_leadership(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    modes = {5: "fast", 12: "immediate", 18: "fast"}
    for seq in range(1, 25):
        writer.store.write(batch := writer.batch(jobs=[job_row(seq)], journal=b"%d" % seq))
        if seq in modes:
            postgres_home.server.stop(modes[seq])
            postgres_home.server.start()
        writer.store.seal()
        writer.mark = writer.mark._replace(number=batch.number, seq=seq)
    assert seqs(writer) == list(range(1, 25))
    assert [row.epoch for row in writer.store.journal()] == [writer.mark.epoch] * 24


def test_a_commit_waits_for_a_server_that_is_down(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    postgres_home.server.stop("immediate")
    postgres_home.chance.actions[4] = postgres_home.server.start
    writer.commit(jobs=[job_row(1)])
    assert postgres_home.chance.draws >= 4
    assert seqs(writer) == [1]


def test_killed_backends_cost_no_commit_and_repeat_none(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store("leader"))
    for seq in range(1, 101):
        writer.store.write(writer.batch(jobs=[job_row(seq)], journal=b"x"))
        if seq % 5 == 0:
            postgres_home.end_backend(writer.store)  # type: ignore[arg-type]
        writer.store.seal()
    assert seqs(writer) == list(range(1, 101))
    assert postgres_home.sql("SELECT commits, number, epoch FROM meta") == [(100, 100, writer.mark.epoch)]


def test_questions_survive_killed_backends(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    writer.commit(jobs=[job_row(1)])
    others = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'headgate'"
    for _ in range(5):
        assert writer.store.get_job("job-000001") is not None
        postgres_home.sql(others)


@pytest.mark.parametrize("fault", ["lose the request", "lose the reply", CUT])
def test_a_commit_whose_connection_breaks_lands_exactly_once(
    postgres_home: PostgresHome, link: Link, fault: Fault
) -> None:
    writer = Writer(postgres_home.store(url=through(postgres_home, link)))
    for seq in range(1, 9):
        writer.store.write(writer.batch(jobs=[job_row(seq)], journal=b"%d" % seq))
        link.fault = fault if seq % 3 == 0 else ""
        writer.store.seal()
        assert not link.fault
    assert link.broken.is_set()
    assert seqs(writer) == list(range(1, 9))
    assert postgres_home.sql("SELECT commits FROM meta") == [(8,)]
    assert [row.events for row in writer.store.journal()] == [b"%d" % seq for seq in range(1, 9)]


def test_a_commit_is_failed_when_its_outcome_cannot_be_known(postgres_home: PostgresHome, link: Link) -> None:
    writer = Writer(postgres_home.store(url=through(postgres_home, link), patience_seconds=0.1))
    writer.commit(jobs=[job_row(1)])
    writer.store.write(writer.batch(jobs=[job_row(2)]))
    link.fault = "lose the reply"
    link.shut()
    with pytest.raises(CommitFailed, match="outcome of the commit is unknown") as caught:
        writer.store.seal()
    assert not isinstance(caught.value, Deposed)
    with pytest.raises(StoreUnavailable, match="not open"):
        writer.commit(jobs=[job_row(3)])
    again = Writer(postgres_home.store())
    assert seqs(again)[:2] == [1, 2]


def test_closing_the_store_ends_the_wait_for_a_lost_server(postgres_home: PostgresHome) -> None:
    store = postgres_home.store()
    writer = Writer(store)
    postgres_home.server.stop("immediate")
    postgres_home.chance.actions[3] = store._closing.set
    try:
        with pytest.raises(CommitFailed, match="closed"):
            writer.commit(jobs=[job_row(1)])
    finally:
        postgres_home.server.start()


# -- one leader ---------------------------------------------------------------------------------------------------


def test_a_second_engine_is_told_who_owns_the_store(postgres_home: PostgresHome) -> None:
    Writer(postgres_home.store("alpha:1"))
    with pytest.raises(StoreOwned, match=r"owned by alpha:1 \(epoch 1, last heard of \d+ s ago\)"):
        postgres_home.store("beta:2").open()


def test_a_commit_of_an_old_epoch_is_refused_although_its_connection_lives(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    writer.commit(jobs=[job_row(1)])
    postgres_home.sql("UPDATE meta SET epoch = epoch + 1, owner = 'someone'")
    before = postgres_home.sql("SELECT * FROM meta")
    with pytest.raises(Deposed, match="someone"):
        writer.commit(jobs=[job_row(2)], journal=b"late", indexed=1)
    with pytest.raises(Deposed):
        writer.commit(jobs=[job_row(2)])
    assert postgres_home.sql("SELECT * FROM meta") == before
    assert postgres_home.sql("SELECT seq FROM job") == [(1,)]


def test_a_commit_that_landed_before_another_engine_came_is_acknowledged(
    postgres_home: PostgresHome, link: Link
) -> None:
    old = Writer(postgres_home.store("old", through(postgres_home, link)))
    new = postgres_home.store("new")
    old.commit(jobs=[job_row(1)])  # from now on the statement is prepared, so that the next reply is that of the commit
    old.store.write(old.batch(jobs=[job_row(2)]))
    link.fault = "lose the reply"
    postgres_home.chance.actions[1] = new.standby
    old.store.seal()
    assert [live.seq for live in new.live_jobs()] == [1, 2]
    with pytest.raises(Deposed, match="new"):
        old.commit(jobs=[job_row(3)])


def test_a_commit_that_did_not_land_before_another_engine_came_is_deposed(
    postgres_home: PostgresHome, link: Link
) -> None:
    old = Writer(postgres_home.store("old", through(postgres_home, link)))
    new = postgres_home.store("new")
    old.store.write(old.batch(jobs=[job_row(1)]))
    link.fault = "lose the request"
    postgres_home.chance.actions[1] = new.standby
    with pytest.raises(Deposed, match="new"):
        old.store.seal()
    assert list(new.live_jobs()) == []


# -- standbys -----------------------------------------------------------------------------------------------------


def waits(home: PostgresHome, schema_lock_tries: int = 1) -> None:
    """Return once a standby listens, which it does after it was refused the lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headgate' AND query LIKE 'LISTEN %%'"
    for _ in range(10_000):
        if home.sql(query + " AND query LIKE %s", f"%{home.schema}_leader%") >= [(schema_lock_tries,)]:
            return
    raise AssertionError("no standby came")


def standby(home: PostgresHome, waiting: ThreadPoolExecutor) -> tuple[PostgresStore, Future[Mark]]:
    store = home.store("standby")
    future = waiting.submit(store.standby)
    waits(home)
    assert not future.done()
    return store, future


def test_a_standby_takes_over_when_the_leader_closes(postgres_home: PostgresHome, waiting: ThreadPoolExecutor) -> None:
    leader = Writer(postgres_home.store("leader"))
    leader.commit(jobs=[job_row(1)])
    store, future = standby(postgres_home, waiting)
    leader.store.close()
    assert future.result(timeout=10).epoch == leader.mark.epoch + 1
    assert [live.seq for live in store.live_jobs()] == [1]


def test_a_standby_takes_over_without_ever_being_notified(
    postgres_home: PostgresHome, waiting: ThreadPoolExecutor
) -> None:
    leader = postgres_home.store("leader")
    leader.open()
    _, future = standby(postgres_home, waiting)
    postgres_home.end_backend(leader)
    assert future.result(timeout=10).epoch == 2


def test_a_standby_outlives_the_server_that_it_waits_at(
    postgres_home: PostgresHome, waiting: ThreadPoolExecutor
) -> None:
    leader = postgres_home.store("leader")
    leader.open()
    _, future = standby(postgres_home, waiting)
    postgres_home.server.stop("immediate")
    postgres_home.server.start()
    assert future.result(timeout=10).epoch == 2


def test_closing_a_standby_ends_its_wait(postgres_home: PostgresHome, waiting: ThreadPoolExecutor) -> None:
    Writer(postgres_home.store("leader"))
    store, future = standby(postgres_home, waiting)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        future.result(timeout=10)


def test_each_commit_tells_listeners_its_number(postgres_home: PostgresHome) -> None:
    writer = Writer(postgres_home.store())
    with psycopg.connect(postgres_home.server.url, autocommit=True) as conn:
        conn.execute(f'LISTEN "{postgres_home.schema}_commit"'.encode())
        writer.commit(jobs=[job_row(1)])
        writer.commit(jobs=[job_row(2)])
        assert [notice.payload for notice in conn.notifies(timeout=10, stop_after=2)] == ["1", "2"]


LEADER = """
import sys
from headgate.stores.postgres import PostgresStore
from headgate.testing.store_conformance import Writer, job_row

class NoChance:
    def uniform(self):
        return 0.5

writer = Writer(PostgresStore(sys.argv[1], NoChance(), "leader"))
seq = 0
while True:
    seq += 1
    writer.commit(jobs=[job_row(seq)], journal=b"x")
    print(seq, flush=True)
"""


def test_a_standby_acts_within_seconds_of_the_death_of_the_leader(
    postgres_home: PostgresHome, waiting: ThreadPoolExecutor
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEADER, postgres_home.url], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(next(child.stdout)) for _ in range(50)]
        store, future = standby(postgres_home, waiting)
        child.send_signal(signal.SIGKILL)
        killed = time.perf_counter()  # noqa: TID251  this measures
        future.result(timeout=30)
        acting = time.perf_counter() - killed  # noqa: TID251
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    assert acting < 5
    live = [live.seq for live in store.live_jobs()]
    assert live[: len(acknowledged)] == acknowledged
    assert len(live) <= len(acknowledged) + 1
