"""The shells around the writer: threads and asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core.actions import Action, Wait
from headgate.core.errors import JobNotFound, StaleLease
from headgate.core.events import Event, Failure
from headgate.core.ordering import FirstFit
from headgate.core.state import State
from headgate.core.states import JobState
from headgate.core.verify import verify
from headgate.engine.aio import AsyncEngine
from headgate.engine.errors import EngineStopped
from headgate.engine.questions import CountJobs, GetJob, GetLeases
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.ports import CommitFailed
from headgate.stores.memory import MemoryDisk
from headgate.system import SystemClock
from headgate.testing import ManualClock, SeededChance, job, worker
from tests.engine.conftest import OPEN, FaultyStore, MakeWriter, disk_full
from tests.turns import turns

WITHIN = 20.0


def submit(*ids: str, **fields: Any) -> c.Submit:
    return c.Submit(tuple(c.NewJob(id_, job(id_, **fields)) for id_ in ids))


def test_threads_share_commits_and_each_gets_its_own_answer(make_writer: MakeWriter) -> None:
    writer = make_writer(opened=False)
    together = threading.Barrier(16)

    def call(number: int) -> tuple[str, ...]:
        together.wait()
        return engine.do(submit(f"job-{number}")).ids

    with SharedEngine(writer, SystemClock()) as engine, ThreadPoolExecutor(16) as pool:
        assert sorted(pool.map(call, range(16))) == sorted((f"job-{n}",) for n in range(16))
        engine.read(verify)
        assert engine.ask(CountJobs()) == {"queued": {"normal": 16}}


class Arrivals(deque[Any]):
    """A queue that tells when enough have arrived."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self._left = threading.Semaphore(0)
        self._enough = enough

    def append(self, ticket: Any) -> None:
        super().append(ticket)
        self._left.release()

    def wait(self) -> None:
        for _ in range(self._enough):
            assert self._left.acquire(timeout=WITHIN)


def test_all_who_come_during_a_commit_share_the_next_one(
    make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(opened=False)
    store = writer.store
    assert isinstance(store, FaultyStore)
    with SharedEngine(writer, SystemClock()) as engine, ThreadPoolExecutor(33) as pool:
        arrivals = Arrivals(33)
        engine._queue = arrivals
        seal, before, first = store.seal, store.seals, threading.Lock()

        def slow_seal() -> None:
            if first.acquire(blocking=False):
                arrivals.wait()
            seal()

        monkeypatch.setattr(store, "seal", slow_seal)
        assert len(list(pool.map(lambda number: engine.do(submit(f"job-{number}")), range(33)))) == 33
        assert store.seals - before <= 3, "one for whoever came first, one for all others, one for the history"


def test_commands_of_one_caller_share_a_commit_and_each_has_its_own_outcome(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        replies = engine.do_all([submit("a"), c.Cancel("nobody"), submit("b")])
        assert [type(reply) for reply in replies] == [c.Submitted, JobNotFound, c.Submitted]


def test_words_said_together_each_have_their_own_outcome(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        engine.do(c.RegisterWorker(worker("w", slots=2)))
        engine.do_all([submit("a"), submit("b")])
        one, other = engine.ask(GetLeases("w"))
        words = [c.Start(one.id, one.token), c.Start(other.id, one.token), c.Complete(one.id, one.token, b"1")]
        replies = engine.do_all([*words, c.Start(other.id, other.token)])
        assert [type(reply) for reply in replies] == [type(None), StaleLease, type(None), type(None)]
        assert [engine.ask(GetJob(name)).state for name in "ab"] == [JobState.COMPLETED, JobState.RUNNING]


def test_a_caller_s_error_is_nobody_else_s(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        with pytest.raises(JobNotFound):
            engine.do(c.Cancel("nobody"))
        assert engine.do(submit("a")).created == (True,)
        with pytest.raises(JobNotFound):
            engine.ask(GetJob("nobody"))


def test_work_runs_through_the_threaded_engine(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        engine.do(c.RegisterWorker(worker("w")))
        engine.do(submit("a"))
        (lease,) = engine.ask(GetLeases("w"))
        waiting = threading.Thread(target=lambda: ended.append(engine.wait_end("a", WITHIN)))
        ended: list[bool] = []
        waiting.start()
        engine.do(c.Start(lease.id, lease.token))
        engine.do(c.Complete(lease.id, lease.token, b"1"))
        waiting.join()
        assert ended == [True]
        with pytest.raises(JobNotFound):
            engine.wait_end("nobody", 0.0)
        engine.do(submit("b"))
        assert engine.wait_end("b", 0.0) is False


def test_a_retry_comes_due_by_itself(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        engine.do(c.RegisterWorker(worker("w")))
        engine.do(submit("a", retry={"attempts": 2, "initial": "50ms", "jitter": 0}))
        (lease,) = engine.ask(GetLeases())
        engine.do(c.Start(lease.id, lease.token))
        engine.do(c.Fail(lease.id, lease.token, Failure("boom")))
        second = engine.wait_for(lambda state: state.jobs["a"].lease, WITHIN)
        assert second is not None
        assert second.attempt == 2


def test_the_threaded_engine_recovers_by_itself_when_the_disk_does(make_writer: MakeWriter) -> None:
    writer = make_writer(opened=False)
    store = writer.store
    assert isinstance(store, FaultyStore)
    with SharedEngine(writer, SystemClock()) as engine:
        engine.do(submit("kept"))
        store.fail_seal = disk_full()
        with pytest.raises(CommitFailed):
            engine.do(submit("lost"))
        with pytest.raises((EngineStopped, CommitFailed)):
            engine.do(submit("refused"))
        store.fail_seal = None
        assert engine.recovered(WITHIN)
        assert engine.ask(CountJobs()) == {"queued": {"normal": 1}}
        engine.do(submit("next"))


def test_a_stopped_engine_says_so(make_writer: MakeWriter) -> None:
    engine = SharedEngine(make_writer(opened=False), SystemClock()).start()
    engine.stop()
    engine.stop()
    with pytest.raises(EngineStopped):
        engine.do(submit("a"))
    with pytest.raises(EngineStopped):
        engine.read(lambda state: state.seq)


@pytest.mark.parametrize("threaded", [False, True])
def test_the_loop_commits_once_for_all_callers_of_a_turn(make_writer: MakeWriter, *, threaded: bool) -> None:
    writer = make_writer(opened=False)
    store = writer.store
    assert isinstance(store, FaultyStore)

    async def main() -> None:
        engine = AsyncEngine(writer, SystemClock(), stopwatch=lambda: 0.0, thread=threaded)
        async with engine:
            before = store.seals
            await asyncio.gather(*(engine.do(submit(f"job-{n}")) for n in range(64)))
            assert store.seals - before <= 2
            engine.read(verify)
            with pytest.raises(JobNotFound):
                await engine.do(c.Cancel("nobody"))
            assert await engine.wait_for(lambda state: state.jobs.get("job-63"), WITHIN)
            assert await engine.wait_for(lambda state: state.jobs.get("nobody"), 0.0) is None

    asyncio.run(main())


def test_who_does_not_wait_is_told_when_it_is_durable_and_before_the_events_are(make_writer: MakeWriter) -> None:
    writer, told = make_writer(opened=False), list[Any]()

    async def main() -> None:
        async with AsyncEngine(writer, ManualClock(), stopwatch=lambda: 0.0) as engine:
            feed = engine.subscribe()
            feed.on_event = lambda: told.append("events")
            engine.begin_all([submit("a"), c.Cancel("nobody")], told.append)
            engine.begin_all([], told.append)
            assert told == [[]], "nothing was to be done"
            await engine.do(submit("b"))
            (_, (first, second)), *rest = enumerate(told[1:])
            assert (first.ids, type(second), rest) == (("a",), JobNotFound, [(1, "events")])

    asyncio.run(main())


def test_who_does_not_wait_is_told_of_what_leaves_nothing_to_commit(make_writer: MakeWriter) -> None:
    writer, told = make_writer(opened=False), list[Any]()

    async def main() -> None:
        async with AsyncEngine(writer, ManualClock(), stopwatch=lambda: 0.0) as engine:
            engine.begin_all([c.Heartbeats((("1-1", 1),))], told.append)
            await turns(10)
            ((beats,),) = told
            assert [beat.stale for beat in beats] == [True]
        engine.begin_all([submit("late")], told.append)
        engine._round()
        assert isinstance(told[1][0], EngineStopped)

    asyncio.run(main())


def test_on_a_slow_disk_the_loop_waits_for_those_who_spoke_lately(make_writer: MakeWriter) -> None:
    writer = make_writer(opened=False)
    store = writer.store
    assert isinstance(store, FaultyStore)

    async def main() -> None:
        clock = ManualClock()
        async with AsyncEngine(writer, clock, stopwatch=lambda: 0.0, thread=True) as engine:
            engine._company.served({"one", "other"}, -1_000_000.0, 0.0)  # patience without end, for a test
            before = store.seals
            first = asyncio.create_task(engine.do_all([submit("a")], "one"))
            await turns(10)
            assert store.seals == before, "it waits for company"
            await engine.do_all([submit("b")], "other")
            await first
            assert store.seals == before + 1

    asyncio.run(main())


def test_the_loop_hands_over_to_a_thread_where_commits_are_slow(make_writer: MakeWriter) -> None:
    ticks = iter(range(1_000_000))

    async def main() -> None:
        engine = AsyncEngine(make_writer(opened=False), SystemClock(), stopwatch=lambda: next(ticks) * 0.05)
        async with engine:
            assert not engine.threaded
            for name in "abc":
                await engine.do(submit(name))
            assert engine.threaded

    asyncio.run(main())


@pytest.mark.parametrize("threaded", [False, True])
def test_a_failed_commit_on_the_loop_is_told_and_mended(make_writer: MakeWriter, *, threaded: bool) -> None:
    writer = make_writer(opened=False)
    store = writer.store
    assert isinstance(store, FaultyStore)

    async def main() -> None:
        engine = AsyncEngine(writer, SystemClock(), stopwatch=lambda: 0.0, thread=threaded)
        async with engine:
            await engine.do(submit("kept"))
            store.fail_seal = disk_full()
            with pytest.raises(CommitFailed):
                await engine.do(submit("lost"))
            store.fail_seal = None
            await engine.recovered()
            await engine.do(submit("next"))
            assert {id_: job.state for id_, job in engine.writer.state.jobs.items()} == {
                "kept": JobState.QUEUED,
                "next": JobState.QUEUED,
            }

    asyncio.run(main())


class Waiting(FirstFit):
    """A policy that thinks elsewhere and always wants to wait."""

    def __init__(self) -> None:
        self.asked = 0

    def observe(self, events: list[Event], state: State) -> None:
        """It keeps no picture."""

    def disposed(self, scheduled: c.Scheduled, now: int) -> list[Any]:
        return []

    async def apropose(self, state: State, now: int) -> list[Action]:
        self.asked += 1
        return [Wait("not now")]


def test_a_policy_that_waits_is_not_asked_again_until_something_happens(disk: MemoryDisk, clock: ManualClock) -> None:
    policy = Waiting()

    async def main() -> list[int]:
        engine = AsyncEngine(Writer(FaultyStore(disk), policy, SeededChance(7), OPEN), clock, stopwatch=lambda: 0.0)
        await engine.start()
        asked = []
        for name in ("a", "b"):
            await engine.do(submit(name))
            await turns(200)
            asked.append(policy.asked)
        await engine.stop()
        return asked

    first, second = asyncio.run(main())
    assert (first, second) == (1, 2)
