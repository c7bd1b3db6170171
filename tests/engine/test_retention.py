"""Retention while the engine runs: what is old goes in small commits, and what anybody still needs stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.errors import HeadgateError, InvalidSettings
from headgate.core.ordering import FirstFit
from headgate.core.retention import DAY, Retention
from headgate.core.settings import Settings, check_settings
from headgate.core.states import TERMINAL
from headgate.core.verify import verify
from headgate.engine import compacting
from headgate.engine.questions import GetHistory, GetJob
from headgate.engine.recovery import recover
from headgate.engine.rounds import EVERY, INDEX_EVERY, Rounds
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.ports import CommitFailed, Gone
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing import ManualClock, SeededChance, job
from headgate.testing.walk import SMALL
from tests.engine.conftest import OPEN, FaultyStore, MakeWriter
from tests.engine.walking import WriterWalk, tables

HOUR = 3_600_000


def keeping(**ages: int) -> Settings:
    return msgspec.structs.replace(OPEN, retention=Retention(**ages))


def submit(writer: Writer, clock: ManualClock, *names: str, **fields: Any) -> None:
    writer.accept(c.Submit(tuple(c.NewJob(name, job(name, **fields)) for name in names)), clock.now(), lambda _: None)
    writer.flush()


def cancel(writer: Writer, clock: ManualClock, *names: str) -> None:
    for name in names:
        writer.accept(c.Cancel(name), clock.now(), lambda _: None)
    writer.flush()


def pass_until(rounds: Rounds, clock: ManualClock, idle: Callable[[], bool]) -> int:
    """Let the shell's time pass, as it would by itself; how many rounds that took."""
    for count in range(1, 10_000):
        clock.advance(rounds.next_pass(clock.now()) - clock.now())
        rounds.pass_time(clock.now())
        assert rounds.problem is None
        if idle():
            return count
    raise AssertionError("it never comes to an end")


def swept(writer: Writer, clock: ManualClock) -> int:
    """Pass time until a sweep has begun and ended."""
    rounds = Rounds(writer)
    clock.advance(compacting.EVERY)
    rounds.pass_time(clock.now())
    return pass_until(rounds, clock, lambda: not writer.behind)


def test_an_engine_deletes_what_has_come_of_age_while_it_runs(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer(keeping(jobs=HOUR, events=HOUR, audit=HOUR))
    submit(writer, clock, "live", "old")
    writer.record("audit", clock.now(), "who", b"what")
    cancel(writer, clock, "old")
    swept(writer, clock)
    assert writer.store.get_job("old") is not None
    clock.advance(HOUR)
    swept(writer, clock)
    assert writer.store.get_job("old") is None
    assert "old" not in writer.state.jobs
    assert writer.store.get_job("live") is not None
    assert writer.store.records("audit") == []
    assert [row for row in writer.store.journal() if row.at < clock.now() - HOUR] == []
    assert writer.store.check() == []
    verify(writer.state)


def test_without_ages_everything_stays_for_ever(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer()
    submit(writer, clock, "old")
    cancel(writer, clock, "old")
    clock.advance(10_000 * DAY)
    swept(writer, clock)
    assert writer.store.get_job("old") is not None
    assert not writer.behind


def test_a_sweep_goes_in_small_commits_and_others_get_in_between(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer(keeping(jobs=0))
    names = [f"job-{number:04}" for number in range(3 * compacting.MOST)]
    submit(writer, clock, *names)
    cancel(writer, clock, *names)
    rounds = Rounds(writer)
    clock.advance(compacting.EVERY)
    left: list[int] = []
    while not left or writer.behind:
        rounds.pass_time(clock.now())
        assert rounds.problem is None
        left.append(sum(writer.store.counts().values()))
        assert rounds.next_pass(clock.now()) - clock.now() == (INDEX_EVERY if writer.behind else EVERY)
        clock.advance(INDEX_EVERY)
    steps = [before - after for before, after in zip([len(names), *left], left, strict=False)]
    assert (left[-1], max(steps)) == (0, compacting.MOST)


def test_a_job_that_a_live_one_depends_on_stays_until_that_one_has_ended(
    make_writer: MakeWriter, clock: ManualClock
) -> None:
    writer = make_writer(keeping(jobs=HOUR))
    submit(writer, clock, "needed", "not-needed")
    submit(writer, clock, "child", dependencies=["needed"], on_dependency_failure="run")
    cancel(writer, clock, "needed", "not-needed")
    assert writer.state.graph.pending("child") == set()
    clock.advance(2 * HOUR)
    swept(writer, clock)
    assert [writer.store.get_job(name) is None for name in ("needed", "not-needed")] == [False, True]
    again = make_writer(keeping(jobs=HOUR))
    assert again.state.graph.needed("needed")
    cancel(again, clock, "child")
    clock.advance(2 * HOUR)
    for _ in range(compacting.AFRESH):
        swept(again, clock)
    assert [again.store.get_job(name) is None for name in ("needed", "child")] == [True, True]


def test_a_job_that_is_submitted_during_a_sweep_protects_what_it_depends_on(
    make_writer: MakeWriter, clock: ManualClock
) -> None:
    writer = make_writer(keeping(jobs=HOUR))
    submit(writer, clock, "first", "needed")
    cancel(writer, clock, "first", "needed")
    clock.advance(2 * HOUR)
    while writer.index_backlog:
        writer.index()
    steps = compacting.sweep(writer.store, Retention(jobs=HOUR), clock.now(), writer._forget, most=1)
    assert writer.drop(next(steps))
    writer.accept(
        c.Submit((c.NewJob("child", job("child", dependencies=["needed"], on_dependency_failure="run")),)),
        clock.now(),
        lambda _: None,
    )
    assert not any(writer.drop(gone) for gone in steps)
    assert writer.store.get_job("needed") is not None


def test_a_key_is_recognised_as_long_as_its_window_lasts(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer(keeping(jobs=HOUR, keys=DAY))
    submit(writer, clock, "first", idempotency_key="k")
    cancel(writer, clock, "first")
    clock.advance(2 * HOUR)
    swept(writer, clock)
    repeat = c.Submit((c.NewJob("second", job("first", idempotency_key="k")),))
    assert writer.accept(repeat, clock.now(), lambda _: None) == c.Submitted(("first",), (False,))
    clock.advance(DAY)
    swept(writer, clock)
    assert writer.accept(repeat, clock.now(), lambda _: None) == c.Submitted(("second",), (True,))


def test_a_job_whose_history_is_still_to_be_written_waits(make_writer: MakeWriter, clock: ManualClock) -> None:
    writer = make_writer()
    submit(writer, clock, "old")
    cancel(writer, clock, "old")
    clock.advance(10)
    assert writer.index_backlog
    assert not any(writer.sweep(Retention(jobs=0), clock.now()))
    assert writer.store.get_job("old") is not None


def test_a_failed_commit_in_the_middle_of_a_sweep_loses_nothing_and_the_sweep_goes_on_later(
    make_writer: MakeWriter, clock: ManualClock
) -> None:
    writer = make_writer(keeping(jobs=0))
    submit(writer, clock, "live", "old")
    cancel(writer, clock, "old")
    while writer.index_backlog:
        writer.index()
    store = writer.store
    assert isinstance(store, FaultyStore)
    rounds = Rounds(writer)
    clock.advance(compacting.EVERY)
    store.fail_seal = CommitFailed("no space left")
    rounds.pass_time(clock.now())
    assert rounds.problem == "no space left"
    store.fail_seal = None
    swept(writer, clock)
    assert (writer.store.get_job("old"), writer.stopped) == (None, None)
    assert "live" in writer.state.jobs


@pytest.mark.parametrize("place", ["commit.before", "commit.written", "commit.after"])
def test_a_crash_in_the_middle_of_a_sweep_is_safe(
    make_writer: MakeWriter, disk: MemoryDisk, clock: ManualClock, place: str
) -> None:
    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        if name == place:
            raise Killed

    writer = make_writer(keeping(jobs=0, events=0))
    names = [f"job-{number}" for number in range(20)]
    submit(writer, clock, *names)
    cancel(writer, clock, *names[5:])
    clock.advance(10)
    while writer.index_backlog:
        writer.index()
    live = list(writer.store.live_jobs())
    for _ in range(6):
        writer = make_writer(keeping(jobs=0, events=0))
        steps = compacting.sweep(writer.store, Retention(jobs=0, events=0), clock.now(), writer._forget, most=4)
        writer.drop(next(steps, Gone()))
        writer._failpoint = die
        try:
            for gone in steps:
                writer.drop(gone)
        except Killed:
            pass
        verify(writer.state)
        assert (list(writer.store.live_jobs()), writer.store.check()) == (live, [])
    assert not disk.ends


class Aged(WriterWalk):
    """Everything ended is deleted almost at once."""

    def go(self, commands: int) -> None:
        for _ in self.accepted(commands):
            if self.walk.chance.random() < 0.3:
                self.sweep()
            if self.walk.chance.random() < 0.02:
                self.open()

    def sweep(self) -> None:
        self.writer.flush()
        while self.writer.index_backlog:
            self.writer.index()
        before = recovered(self.disk, self.walk.now)
        keep = Retention(jobs=2_000, keys=9_000, events=1_000)
        for gone in compacting.sweep(self.writer.store, keep, self.walk.now, self.writer._forget, most=3):
            self.writer.drop(gone)
            verify(self.writer.state)
            assert recovered(self.disk, self.walk.now) == before
            if self.walk.chance.random() < 0.1:
                return
        assert self.writer.store.check() == []
        self.nothing_needed_is_gone()

    def nothing_needed_is_gone(self) -> None:
        state, known = self.writer.state, self.disk.seq_of
        for one in state.jobs.values():
            assert one.id in known, "the core knows a job that was deleted"
            if one.state not in TERMINAL:
                for name in one.dependencies:
                    assert name in known, name
        for (tenant, key), (job_id, _) in state.keys.items():
            assert self.disk.keys[tenant, key] == known[job_id]


def recovered(disk: MemoryDisk, now: int) -> tuple[object, ...]:
    """What a restart would make of the disk, as far as anything live goes."""
    state, changes = recover(tables(disk), SMALL, disk.mark, now)
    verify(state)
    live = {one.id: (one.state, one.attempt, one.seq) for one in state.jobs.values() if one.state not in TERMINAL}
    waiting = {job_id: sorted(names) for job_id, names in state.graph.waiting().items()}
    return live, [one.id for one in state.ready], list(state.leases.values()), waiting, changes.low_water.mark


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_deleting_the_old_changes_nothing_for_the_living(seed: int) -> None:
    aged = Aged(seed)
    aged.go(250)
    assert aged.disk.mark.seq > len(aged.disk.jobs), "something was deleted"


def test_an_engine_compacts_on_demand_by_other_ages(disk: MemoryDisk, clock: ManualClock) -> None:
    engine = SharedEngine(Writer(MemoryStore(disk), FirstFit(), SeededChance(7), OPEN), clock).start()
    for name in ("a", "b", "live"):
        engine.do(c.Submit((c.NewJob(name, job(name)),)))
    engine.do(c.Cancel("a"))
    engine.do(c.Cancel("b"))
    clock.advance(10)
    gone = engine.compact(Retention(events=0))
    assert (gone.jobs, gone.histories) == (0, 2)
    assert engine.ask(GetHistory("a")) == []
    assert len(engine.ask(GetHistory("live"))) == 1
    assert engine.compact(Retention(jobs=0)).jobs == 2
    with pytest.raises(HeadgateError, match="there is no job"):
        engine.ask(GetJob("a"))
    assert engine.ask(GetJob("live")).state == "queued"
    engine.stop()


def test_an_age_below_zero_is_refused_by_name() -> None:
    with pytest.raises(InvalidSettings) as refused:
        check_settings(Settings(retention=Retention(events=-1)))
    assert refused.value.field == "retention.events"
