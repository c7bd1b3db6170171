"""The single writer: what is acknowledged is durable, and what is not durable is never acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.errors import DuplicateJob, IdempotencyConflict, StaleLease, UnknownDependency
from headgate.core.ordering import FirstFit
from headgate.core.retention import Retention
from headgate.core.settings import Settings
from headgate.core.states import JobState
from headgate.core.tenants import TenantSpec
from headgate.core.verify import verify
from headgate.engine import index
from headgate.engine.errors import EngineStopped
from headgate.engine.failpoints import FAILPOINTS, from_text
from headgate.engine.questions import EventEntry, Explain, FindEvents, GetHistory, GetJob, GetStatus, answer
from headgate.engine.rounds import Rounds, Ticket
from headgate.engine.rows import JOB_FIELD
from headgate.engine.writer import Writer
from headgate.ports import CommitFailed
from headgate.stores.memory import MemoryDisk
from headgate.stores.sqlite import SqliteStore, restore
from headgate.testing import ManualClock, SeededChance, job, worker
from tests.engine.conftest import OPEN, FaultyStore, MakeWriter, disk_full


class Caller:
    """Sends commands and remembers what it was told."""

    def __init__(self, writer: Writer, clock: ManualClock) -> None:
        self.writer, self.clock = writer, clock
        self.told: list[Exception | None] = []

    def send(self, command: c.Command[Any]) -> object:
        return self.writer.accept(command, self.clock.now(), self.told.append)

    def submit(self, *ids: str, **fields: Any) -> object:
        return self.send(c.Submit(tuple(c.NewJob(id_, job(id_, **fields)) for id_ in ids)))

    def run(self, command: c.Command[Any]) -> object:
        reply = self.send(command)
        if self.writer.wants_cycle():
            self.writer.cycle(self.clock.now())
        self.writer.flush()
        return reply


@pytest.fixture
def writer(make_writer: MakeWriter) -> Writer:
    return make_writer()


@pytest.fixture
def caller(writer: Writer, clock: ManualClock) -> Caller:
    return Caller(writer, clock)


def store_of(writer: Writer) -> FaultyStore:
    assert isinstance(writer.store, FaultyStore)
    return writer.store


def pass_time(writer: Writer, clock: ManualClock, milliseconds: int) -> None:
    """Tick every second, as a live engine does: a longer gap would be taken for a pause of the engine itself."""
    for _ in range(0, milliseconds, 1_000):
        clock.advance(1_000)
        writer.tick(clock.now())


def lease_of(writer: Writer, job_id: str) -> tuple[str, int]:
    lease = writer.state.jobs[job_id].lease
    assert lease is not None
    return lease.id, lease.token


def test_nobody_is_told_before_the_commit_returned(writer: Writer, caller: Caller) -> None:
    caller.submit("a")
    assert caller.told == []
    writer.flush()
    assert caller.told == [None]


def test_callers_of_one_round_share_one_commit(writer: Writer, caller: Caller) -> None:
    for name in "abcde":
        caller.submit(name)
    writer.flush()
    assert caller.told == [None] * 5
    assert store_of(writer).seals == 1


def test_a_refused_command_is_raised_at_once_and_leaves_nothing_to_commit(writer: Writer, caller: Caller) -> None:
    with pytest.raises(UnknownDependency):
        caller.submit("a", dependencies=["nobody"])
    writer.flush()
    assert store_of(writer).seals == 0


def test_a_heartbeat_is_answered_without_a_commit(writer: Writer, caller: Caller) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a")
    caller.run(c.Tick())
    seals = store_of(writer).seals
    lease_id, token = lease_of(writer, "a")
    caller.run(c.Heartbeat(lease_id, token))
    assert caller.told[-1] is None
    assert store_of(writer).seals == seals


@pytest.mark.parametrize("where", ["fail_write", "fail_seal"])
def test_a_failed_commit_tells_everybody_and_stops_the_engine(writer: Writer, caller: Caller, where: str) -> None:
    caller.submit("kept")
    writer.flush()
    caller.submit("lost")
    setattr(store_of(writer), where, disk_full())
    with pytest.raises(CommitFailed):
        writer.flush()
    assert isinstance(caller.told[-1], CommitFailed)
    with pytest.raises(EngineStopped, match="no space left"):
        caller.submit("refused")


def test_after_a_failed_commit_the_state_is_rebuilt_from_the_disk(
    writer: Writer, caller: Caller, clock: ManualClock
) -> None:
    caller.submit("kept")
    writer.flush()
    caller.submit("lost")
    store = store_of(writer)
    store.fail_seal = disk_full()
    with pytest.raises(CommitFailed):
        writer.flush()
    store.fail_seal = None
    store.close()
    writer.open(clock.now())
    assert set(writer.state.jobs) == {"kept"}
    caller.submit("next")
    writer.flush()
    assert caller.told[-1] is None
    verify(writer.state)


def test_single_commands_of_one_round_are_carried_out_in_order_and_each_has_its_own_outcome(
    writer: Writer, caller: Caller, clock: ManualClock
) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.run(c.Submit((c.NewJob("first", job("first")),)))
    (lease,) = writer.state.leases.values()
    tickets: list[Ticket[Any]] = [
        Ticket(c.Start(lease.id, lease.token)),
        Ticket(c.Submit((c.NewJob("second", job("second", idempotency_key="k")),))),
        Ticket(c.Submit((c.NewJob("second", job("again")),))),
        Ticket(c.Submit((c.NewJob("third", job("second", idempotency_key="k")),))),
        Ticket(c.Submit((c.NewJob("fourth", job("fourth", dependencies=["second"])),))),
        Ticket(c.Submit((c.NewJob("fifth", job("fifth", dependencies=["nowhere"])),))),
        Ticket(c.Complete("no lease", 1)),
        Ticket(c.Complete(lease.id, lease.token, b"1")),
    ]
    commits = store_of(writer).seals
    Rounds(writer).accept(tickets, clock.now())
    assert not any(ticket.settled for ticket in tickets)
    writer.flush()
    assert all(ticket.settled for ticket in tickets)
    assert store_of(writer).seals == commits + 1
    outcomes = [type(ticket.error or ticket.reply) for ticket in tickets]
    assert outcomes[2] is DuplicateJob
    assert outcomes[5:7] == [UnknownDependency, StaleLease]
    assert tickets[3].reply == c.Submitted(("second",), (False,))
    assert writer.state.jobs["first"].state is JobState.COMPLETED
    assert writer.state.jobs["fourth"].state is JobState.BLOCKED
    verify(writer.state)


def test_one_of_many_that_the_store_refuses_is_refused_alone(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer(msgspec.structs.replace(OPEN, retain_finished=0))
    caller = Caller(writer, clock)
    caller.run(c.Submit((c.NewJob("a", job("a")),)))
    caller.run(c.Cancel("a"))
    pass_time(writer, clock, 2_000)
    writer.flush()
    assert "a" not in writer.state.jobs
    tickets = [Ticket(c.Submit((c.NewJob(name, job(name)),))) for name in ("a", "b")]
    Rounds(writer).accept(tickets, clock.now())
    writer.flush()
    assert isinstance(tickets[0].error, DuplicateJob)
    assert tickets[1].reply == c.Submitted(("b",), (True,))


def test_a_history_has_events_as_the_journal_has_them(writer: Writer, caller: Caller) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a")
    caller.run(c.SetTenant(TenantSpec("t")))
    (lease,) = writer.state.leases.values()
    caller.run(c.Start(lease.id, lease.token))
    caller.run(c.Complete(lease.id, lease.token, b"1"))
    writer.index()
    told = [(row.type, row.body) for row in writer.store.events_of("a")]
    journaled = [event for row in writer.store.journal() for event in e.decode(row.events)]
    ours = [event for event in journaled if type(event) in JOB_FIELD]
    assert told == [(event.__struct_config__.tag, msgspec.msgpack.encode(event)) for event in ours]
    assert len(told) == 4


def test_a_repeat_waits_for_the_commit_that_its_answer_rests_on(writer: Writer, caller: Caller) -> None:
    caller.submit("a", idempotency_key="k")
    group = writer.write()
    assert group is not None
    caller.send(c.Submit((c.NewJob("other", job("a", idempotency_key="k")),)))
    assert caller.told == []
    writer.seal(group)
    writer.tell(group)
    assert caller.told == [None, None]


def test_everything_survives_a_restart(writer: Writer, caller: Caller, make_writer: MakeWriter) -> None:
    caller.run(c.RegisterWorker(worker("w", slots=3, memory="8GB")))
    caller.run(c.SetTenant(msgspec.convert(["t", 2.0, 50], type=TenantSpec)))
    caller.submit("child", "other", tenant="t", priority="high")
    caller.submit("parent", priority=5, resources={"memory": "2GB"}, units=7, retry=3)
    caller.submit("late", not_before=5_000_000)
    caller.submit("after", dependencies=["late"])
    caller.run(c.Tick())
    lease_id, token = lease_of(writer, "parent")
    caller.run(c.Start(lease_id, token))
    caller.run(c.Patch("late", priority="background"))
    before = writer.state
    again = make_writer()
    verify(again.state)
    assert again.state.counts == before.counts
    assert again.state.leases.keys() == before.leases.keys()
    assert again.state.leased_units == before.leased_units
    assert again.state.workers["w"].free == before.workers["w"].free
    assert again.state.jobs["late"].kind.of.priority == "background"
    assert again.state.jobs["after"].state is JobState.BLOCKED
    assert again.state.tenants["t"].spec.max_units == 50
    assert again.state.epoch == before.epoch + 1
    assert [job.id for job in again.state.ready] == [job.id for job in before.ready]


def test_after_a_restart_every_lease_has_a_full_ttl(
    writer: Writer, caller: Caller, make_writer: MakeWriter, clock: ManualClock
) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a")
    caller.run(c.Tick())
    clock.advance(3 * OPEN.lease_ttl)
    again = make_writer()
    again.tick(clock.now())
    assert str(again.state.jobs["a"].state) == "leased"
    pass_time(again, clock, OPEN.lease_ttl)
    assert str(again.state.jobs["a"].state) == "expired"


def test_a_frozen_engine_expires_nobody_when_it_wakes(writer: Writer, caller: Caller, clock: ManualClock) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a")
    caller.run(c.Tick())
    lease_id, token = lease_of(writer, "a")
    clock.advance(10 * OPEN.lease_ttl)
    writer.tick(clock.now())
    caller.run(c.Start(lease_id, token))
    assert writer.state.jobs["a"].state is JobState.RUNNING


def test_a_repeated_completion_is_recognised_across_a_restart(
    writer: Writer, caller: Caller, make_writer: MakeWriter, clock: ManualClock
) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a")
    caller.run(c.Tick())
    lease_id, token = lease_of(writer, "a")
    caller.run(c.Start(lease_id, token))
    caller.run(c.Complete(lease_id, token, b'{"x":1}'))
    again = Caller(make_writer(), clock)
    again.run(c.Complete(lease_id, token, b'{"x":1}'))
    assert again.told == [None]


def test_a_lease_of_an_earlier_epoch_that_expired_stays_stale(
    writer: Writer, caller: Caller, make_writer: MakeWriter, clock: ManualClock
) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a", retry=2)
    caller.run(c.Tick())
    lease_id, token = lease_of(writer, "a")
    again = Caller(make_writer(), clock)
    clock.advance(1)
    again.run(c.FailWorker("w"))
    with pytest.raises(StaleLease):
        again.run(c.Complete(lease_id, token))


def test_jobs_that_memory_has_forgotten_still_count(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer(Settings(fixed_busy=0, retain_finished=0))
    caller = Caller(writer, clock)
    caller.run(c.RegisterWorker(worker("w", slots=2)))
    caller.submit("done", idempotency_key="k")
    caller.submit("cancelled")
    caller.run(c.Tick())
    lease_id, token = lease_of(writer, "done")
    caller.run(c.Start(lease_id, token))
    caller.run(c.Complete(lease_id, token))
    caller.run(c.Cancel("cancelled"))
    caller.run(c.Tick())
    assert not writer.state.jobs
    caller.submit("child", dependencies=["done"])
    caller.submit("doomed", dependencies=["cancelled"])
    assert writer.state.jobs["child"].state is JobState.QUEUED
    assert writer.state.jobs["doomed"].state is JobState.FAILED
    reply = caller.send(c.Submit((c.NewJob("again", job("done", idempotency_key="k")),)))
    assert reply == c.Submitted(("done",), (False,))
    with pytest.raises(IdempotencyConflict):
        caller.submit("other", idempotency_key="k", units=3)


def test_a_restart_that_loads_no_job_knows_keys_and_dependencies_all_the_same(
    make_writer: MakeWriter, clock: ManualClock
) -> None:
    settings = Settings(fixed_busy=0, retain_finished=0)
    before = Caller(make_writer(settings), clock)
    before.submit("done", idempotency_key="k")
    before.run(c.Cancel("done"))
    before.run(c.Tick())
    after = Caller(make_writer(settings), clock)
    assert not after.writer.state.jobs
    reply = after.send(c.Submit((c.NewJob("again", job("done", idempotency_key="k")),)))
    assert reply == c.Submitted(("done",), (False,))
    after.submit("child", dependencies=["done"])
    assert after.writer.state.jobs["child"].state is JobState.FAILED


def test_nothing_is_looked_up_in_the_store_before_anything_was_forgotten(
    writer: Writer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: object) -> dict[object, object]:
        raise AssertionError("the store was asked")

    monkeypatch.setattr(writer.store, "find_keys", never)
    monkeypatch.setattr(writer.store, "states_of", never)
    caller.submit("a", idempotency_key="k")
    with pytest.raises(UnknownDependency):
        caller.submit("b", dependencies=["nobody"])


def test_only_ids_as_old_as_what_was_forgotten_are_looked_up_in_the_store(
    make_writer: MakeWriter, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(Settings(fixed_busy=0, retain_finished=1))
    caller = Caller(writer, clock)
    caller.submit("b", "c", "x")
    for name in "bc":
        caller.run(c.Cancel(name))
    caller.run(c.Tick())
    assert "b" not in writer.state.jobs
    asked: list[list[str]] = []
    states_of = writer.store.states_of

    def spy(job_ids: Iterable[str]) -> dict[str, JobState]:
        asked.append(list(job_ids))
        return states_of(asked[-1])

    monkeypatch.setattr(writer.store, "states_of", spy)
    caller.submit("d")  # before "x", but after all that was forgotten
    assert asked == []
    caller.submit("a")
    with pytest.raises(DuplicateJob, match="'b'"):
        caller.submit("b")
    assert asked == [["a"], ["b"]]


def test_a_job_that_ends_and_is_forgotten_in_one_round_is_still_written(
    make_writer: MakeWriter, clock: ManualClock, disk: MemoryDisk
) -> None:
    writer = make_writer(Settings(fixed_busy=0, retain_finished=0))
    caller = Caller(writer, clock)
    caller.submit("a")
    caller.send(c.Cancel("a", "not needed"))
    caller.send(c.Tick())
    writer.flush()
    assert [row.state for row in disk.ends.values()] == ["cancelled"]


def test_a_job_that_comes_and_goes_in_one_round_leaves_two_rows(
    writer: Writer, caller: Caller, disk: MemoryDisk
) -> None:
    caller.send(c.RegisterWorker(worker("w")))
    caller.submit("a")
    writer.cycle(caller.clock.now())
    lease_id, token = lease_of(writer, "a")
    caller.send(c.Start(lease_id, token))
    caller.send(c.Complete(lease_id, token, b"42"))
    writer.flush()
    assert (len(disk.jobs), len(disk.ends), len(disk.leases), len(disk.statuses)) == (1, 1, 0, 0)
    assert writer.store.open().low_water == 2


def test_the_history_of_a_job_is_indexed_off_the_hot_path(writer: Writer, caller: Caller) -> None:
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a", retry=2)
    caller.run(c.Tick())
    lease_id, token = lease_of(writer, "a")
    caller.run(c.Start(lease_id, token))
    caller.run(c.Fail(lease_id, token, e.Failure("boom", "it broke")))
    assert writer.index_backlog
    while writer.index_backlog:
        writer.index()
    history = answer(GetHistory("a"), writer.state, writer.store, caller.clock.now())
    assert [entry.type for entry in history] == ["job-submitted", "lease-granted", "job-started", "attempt-failed"]


def test_history_that_was_not_indexed_before_a_crash_is_indexed_after(
    writer: Writer, caller: Caller, make_writer: MakeWriter
) -> None:
    caller.submit("a")
    writer.flush()
    again = make_writer()
    while again.index_backlog:
        again.index()
    assert [row.type for row in again.store.events_of("a")] == ["job-submitted"]


def test_questions_are_answered_from_state_and_store(writer: Writer, caller: Caller, clock: ManualClock) -> None:
    caller.submit("a", units=5, payload={"n": 1})
    writer.flush()
    info = answer(GetJob("a"), writer.state, writer.store, clock.now())
    assert (info.state, info.kind.units, info.spec.payload) == (JobState.QUEUED, 5, b'{"n":1}')
    why = answer(Explain("a"), writer.state, writer.store, clock.now())
    assert [type(reason).__name__ for reason in why.reasons] == ["NoFittingWorker"]
    status = answer(GetStatus(), writer.state, writer.store, clock.now())
    assert (status.free_units, status.states["queued"]) == (1_000, 1)


def test_the_feed_carries_only_what_is_durable_and_counts_what_a_slow_listener_lost(
    writer: Writer, caller: Caller
) -> None:
    everything = writer.feed.subscribe()
    slow = writer.feed.subscribe(limit=2)
    picky = writer.feed.subscribe(wants=lambda event: type(event) is e.JobCancelled)
    for name in "abcd":
        caller.submit(name)
    assert everything.take() == []
    caller.run(c.Cancel("a"))
    assert [number for number, _ in everything.take()] == [1, 2, 3, 4, 5]
    assert slow.lost == 3
    assert [type(event) for _, event in picky.take()] == [e.JobCancelled]
    everything.close()
    caller.run(c.Cancel("b"))
    assert everything.take() == []


def test_records_are_committed_with_what_comes_next(writer: Writer, caller: Caller, clock: ManualClock) -> None:
    writer.record("audit", clock.now(), "who", b"what")
    writer.flush()
    assert [row.body for row in writer.store.records("audit")] == [b"what"]


@pytest.mark.parametrize("jump", [-7_200_000, 0, 3 * 3_600_000])
def test_a_run_time_limit_is_not_reached_by_a_clock_that_moved_while_the_engine_was_away(
    make_writer: MakeWriter, clock: ManualClock, jump: int
) -> None:
    caller = Caller(make_writer(), clock)
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("long", timeout="1h", retry=1)
    caller.writer.cycle(clock.now())
    (lease,) = caller.writer.state.leases.values()
    caller.run(c.Start(lease.id, lease.token))
    clock.advance(1_800_000)
    caller.run(c.Heartbeat(lease.id, lease.token))
    later = ManualClock(clock.now() + jump)
    again = Caller(make_writer(opened=False), later)
    again.writer.open(later.now())
    for _ in range(355):  # an hour from now on, less a little: late is allowed, early is not
        again.run(c.Heartbeat(lease.id, lease.token))
        again.writer.tick(later.now())
        assert "long" in {held.job_id for held in again.writer.state.leases.values()}
        later.advance(10_000)
    again.run(c.Heartbeat(lease.id, lease.token))
    later.advance(60_000)
    again.writer.tick(later.now())
    again.writer.flush()
    info = answer(GetJob("long"), again.writer.state, again.writer.store, later.now())
    assert info.error is not None
    assert (info.state, info.error.code, info.error.message) == ("failed", "timeout", "ran longer than 3600 s")


def test_a_history_that_falls_behind_waits_on_the_disk_and_is_complete_in_the_end(
    make_writer: MakeWriter, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MOST_HELD", 10)
    monkeypatch.setattr(index.HistoryIndex.__init__, "__defaults__", (10,))
    caller = Caller(make_writer(), clock)
    names = [f"job-{number}" for number in range(60)]
    for name in names:
        caller.submit(name)
        caller.writer.flush()
    assert held(caller.writer) <= 10
    assert caller.writer.index_backlog == 60
    caller.writer.index()
    caller.run(c.Cancel(names[0]))
    again = Caller(make_writer(), clock)  # what was in memory is gone, and what was indexed is not done twice
    assert (held(again.writer) <= 10, again.writer.index_backlog > 0) == (True, True)
    again.submit("last")
    again.writer.flush()
    while again.writer.index_backlog:
        again.writer.index()
        assert held(again.writer) <= 10
    store = again.writer.store
    assert [row.type for row in store.events_of(names[0])] == ["job-submitted", "job-cancelled"]
    assert [len(store.events_of(name)) for name in (*names[1:], "last")] == [1] * 60
    assert again.writer.store.open().indexed == max(row.number for row in store.journal())


def test_events_of_everything_are_found_by_time_and_type_in_pages(
    writer: Writer, caller: Caller, clock: ManualClock
) -> None:
    began = clock.now()
    caller.run(c.RegisterWorker(worker("w")))
    for name in ("a", "b", "c"):
        clock.advance(1_000)
        caller.submit(name)
        caller.submit(f"{name}2")
        writer.flush()

    def found(**asked: Any) -> list[EventEntry]:
        return answer(FindEvents(**asked), writer.state, writer.store, clock.now())

    everything = found()
    assert [entry.type for entry in everything if entry.job_id is None] == ["worker-registered"]
    assert [entry.number for entry in everything] == sorted({entry.number for entry in everything})
    submitted = found(types=("job-submitted",))
    assert [entry.job_id for entry in submitted] == ["a", "a2", "b", "b2", "c", "c2"]
    middle = found(types=("job-submitted",), since=began + 2_000, until=began + 3_000)
    assert [(entry.job_id, entry.at) for entry in middle] == [("b", began + 2_000), ("b2", began + 2_000)]
    pages, after = [], 0
    while page := found(after=after, limit=2):
        pages += page
        after = page[-1].number
    assert pages == everything
    while writer.index_backlog:
        writer.index()
    history = answer(GetHistory("b"), writer.state, writer.store, clock.now())
    assert [(entry.number, entry.type, entry.body) for entry in everything if entry.job_id == "b"] == [
        (entry.number, entry.type, entry.body) for entry in history
    ]


def held(writer: Writer) -> int:
    return sum(events for _, _, _, events, _ in writer._index._waiting)


def test_compacting_keeps_live_jobs(writer: Writer, caller: Caller, clock: ManualClock) -> None:
    caller.submit("live", "dead")
    caller.run(c.Cancel("dead"))
    while writer.index_backlog:
        writer.index()
    steps = list(map(writer.drop, writer.sweep(Retention(jobs=0, events=0), clock.now() + 10)))
    assert True in steps
    assert writer.store.get_job("live") is not None
    assert writer.store.get_job("dead") is None


def test_every_failpoint_is_passed(make_writer: MakeWriter, clock: ManualClock) -> None:
    passed: list[str] = []
    writer = make_writer(failpoint=passed.append)
    Caller(writer, clock).submit("a")
    writer.flush()
    assert set(passed) == set(FAILPOINTS)


@pytest.mark.parametrize("text", ["nowhere=kill", "commit.after=explode", "commit.after=kill:x", "commit.after"])
def test_a_wrong_failpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a failpoint"):
        from_text(text)


def test_tokens_from_before_a_restore_are_refused_and_their_jobs_run_again(tmp_path: Path, clock: ManualClock) -> None:
    first = Writer(SqliteStore(tmp_path / "a.db"), FirstFit(), SeededChance(1), OPEN)
    first.open(clock.now())
    caller = Caller(first, clock)
    caller.run(c.RegisterWorker(worker("w")))
    caller.submit("a")
    caller.run(c.Tick())
    lease_id, token = lease_of(first, "a")
    first.store.backup(str(tmp_path / "copy.db"))
    caller.run(c.Start(lease_id, token))
    caller.run(c.Complete(lease_id, token))
    first.close()
    restore(tmp_path / "copy.db", tmp_path / "b.db")
    second = Writer(SqliteStore(tmp_path / "b.db"), FirstFit(), SeededChance(1), OPEN)
    second.open(clock.now())
    again = Caller(second, clock)
    with pytest.raises(StaleLease):
        again.run(c.Start(lease_id, token))
    again.run(c.Tick())
    assert lease_of(second, "a")[1] > token
    verify(second.state)
    second.close()
