"""What the simulation found, one small test each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.errors import DuplicateJob
from headgate.core.lease import Lease
from headgate.core.settings import Settings
from headgate.core.states import JobState
from headgate.core.verify import verify
from headgate.engine.rounds import Rounds, Ticket
from headgate.engine.writer import Writer
from headgate.ports import CommitFailed
from headgate.stores.memory import MemoryDisk
from headgate.testing import ManualClock, job, worker
from tests.engine.conftest import OPEN, FaultyStore, MakeWriter, disk_full

TTL = OPEN.lease_ttl
HOURS = 2 * 3_600_000


class Engine:
    """A writer that carries out commands one by one, and can be started anew."""

    def __init__(self, make_writer: MakeWriter, clock: ManualClock, settings: Settings = OPEN) -> None:
        self._make, self.clock, self._settings = make_writer, clock, settings
        self.start()

    def start(self) -> Writer:
        self.writer: Writer = self._make(self._settings)
        verify(self.writer.state)
        return self.writer

    def do(self, *commands: c.Command[Any]) -> None:
        for command in commands:
            self.writer.accept(command, self.clock.now(), lambda _: None)
        self.plan()

    def submit(self, job_id: str, **fields: Any) -> None:
        self.do(c.Submit((c.NewJob(job_id, job(job_id, **fields)),)))

    def plan(self) -> None:
        self.writer.cycle(self.clock.now())
        self.writer.flush()
        verify(self.writer.state)

    def tick(self, milliseconds: int = 1_000) -> None:
        self.clock.advance(milliseconds)
        self.writer.tick(self.clock.now())
        self.plan()

    def lease(self, job_id: str) -> Lease:
        lease = self.writer.state.jobs[job_id].lease
        assert lease is not None
        return lease

    def begin(self, job_id: str) -> Lease:
        lease = self.lease(job_id)
        self.do(c.Start(lease.id, lease.token))
        return lease

    def state(self, job_id: str) -> JobState:
        return self.writer.state.jobs[job_id].state


@pytest.fixture
def engine(make_writer: MakeWriter, clock: ManualClock) -> Engine:
    engine = Engine(make_writer, clock)
    engine.do(c.RegisterWorker(worker("w", slots=4)))
    return engine


def test_a_repeat_is_not_told_that_its_job_exists_before_that_is_durable(engine: Engine) -> None:
    submit = c.Submit((c.NewJob("a", job("a")),))
    first, again = Ticket(submit), Ticket(submit)
    Rounds(engine.writer).accept([first, again], engine.clock.now())
    assert not again.settled
    assert isinstance(engine.writer.store, FaultyStore)
    engine.writer.store.fail_seal = disk_full()
    with pytest.raises(CommitFailed):
        engine.writer.flush()
    assert isinstance(again.error, CommitFailed)


def test_a_refusal_that_rests_on_nothing_new_comes_at_once(engine: Engine) -> None:
    engine.submit("a")
    again = Ticket(c.Submit((c.NewJob("a", job("a")),)))
    Rounds(engine.writer).accept([again], engine.clock.now())
    assert isinstance(again.error, DuplicateJob)


def test_a_repeat_of_a_forgotten_job_is_refused_and_spoils_no_commit(
    make_writer: MakeWriter, clock: ManualClock, disk: MemoryDisk
) -> None:
    engine = Engine(make_writer, clock, msgspec.structs.replace(OPEN, retain_finished=0))
    engine.submit("a")
    engine.do(c.Cancel("a"))
    engine.tick()
    assert "a" not in engine.writer.state.jobs
    with pytest.raises(DuplicateJob, match="'a'"):
        engine.submit("a")
    engine.submit("b")
    assert disk.seq_of.keys() == {"a", "b"}


def test_a_repeat_of_a_job_forgotten_before_the_start_spoils_one_commit_at_most(
    make_writer: MakeWriter, clock: ManualClock
) -> None:
    engine = Engine(make_writer, clock, msgspec.structs.replace(OPEN, retain_finished=0))
    engine.submit("a")
    engine.do(c.Cancel("a"))
    engine.start()
    with pytest.raises(CommitFailed):
        engine.submit("a")
    Rounds(engine.writer).pass_time(clock.now())
    with pytest.raises(DuplicateJob):
        engine.submit("a")


@pytest.mark.parametrize("hours", [-HOURS, HOURS])
def test_after_a_restart_a_lease_lasts_a_full_ttl_whatever_the_clock_says(engine: Engine, hours: int) -> None:
    engine.submit("a")
    engine.clock.advance(hours)
    engine.start()
    for _ in range(TTL // 1_000 - 1):
        engine.tick()
    assert engine.state("a") is JobState.LEASED
    engine.tick()
    assert engine.state("a") is JobState.EXPIRED


@pytest.mark.parametrize("hours", [-HOURS, HOURS])
def test_after_a_restart_a_time_limit_is_neither_missed_nor_hours_away(engine: Engine, hours: int) -> None:
    engine.submit("a", timeout="60s")
    lease = engine.begin("a")
    engine.clock.advance(hours)
    engine.start()
    engine.tick()
    assert engine.state("a") is JobState.RUNNING
    for _ in range(60):
        engine.do(c.Heartbeats(((lease.id, lease.token),)))
        engine.tick()
    assert engine.state("a") is JobState.FAILED


def test_a_holder_can_report_after_the_engine_was_away_for_longer_than_the_time_limit(engine: Engine) -> None:
    engine.submit("a", timeout="60s")
    lease = engine.begin("a")
    engine.clock.advance(600_000)
    engine.start()
    engine.tick()
    engine.do(c.Complete(lease.id, lease.token))
    assert engine.state("a") is JobState.COMPLETED


def test_a_lease_of_a_worker_that_moved_to_another_pool_survives_a_restart(engine: Engine) -> None:
    engine.submit("a")
    engine.do(c.RegisterWorker(worker("w", slots=4, pool="elsewhere")))
    engine.start()
    lease = engine.begin("a")
    engine.do(c.Complete(lease.id, lease.token))
    assert engine.state("a") is JobState.COMPLETED


def test_a_job_that_ends_while_it_waits_ended_on_no_worker(engine: Engine, disk: MemoryDisk) -> None:
    engine.submit("a")
    lease = engine.begin("a")
    engine.writer.accept(c.Release(lease.id, lease.token), engine.clock.now(), lambda _: None)
    engine.do(c.Cancel("a"))
    end = disk.ends[1]
    assert (end.worker_id, end.started_at, end.lease_id) == (None, None, lease.id)


def crowded(make_writer: MakeWriter, clock: ManualClock) -> Engine:
    """Four small jobs fill the machine; a large urgent one asks them all to go."""
    engine = Engine(make_writer, clock, msgspec.structs.replace(OPEN, total_units=4, preemption_grace=3_000))
    engine.do(c.RegisterWorker(worker("w", slots=8)))
    for number in range(4):
        engine.submit(f"small-{number}", priority="low")
    engine.submit("urgent", priority="high", units=4)
    return engine


def test_room_that_is_being_made_is_not_given_away(make_writer: MakeWriter, clock: ManualClock) -> None:
    engine = crowded(make_writer, clock)
    early = engine.lease("small-0")
    engine.do(c.Release(early.id, early.token))
    assert engine.state("small-0") is JobState.QUEUED
    for _ in range(3):
        engine.tick()
    assert engine.state("urgent") is JobState.LEASED
    assert engine.writer.state.tokens == 5


def test_victims_have_no_more_than_their_grace_though_the_clock_went_back(
    make_writer: MakeWriter, clock: ManualClock
) -> None:
    engine = crowded(make_writer, clock)
    engine.clock.advance(-HOURS)
    engine.start()
    for _ in range(4):
        engine.tick()
    assert engine.state("urgent") is JobState.LEASED
