"""The sampler as a thread and as a task; the pool agent; both with an engine that comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from headgate.bootstrap.engine import open_engine
from headgate.bootstrap.load import host_sampler, pool_agent
from headgate.core import commands as c
from headgate.core.cluster import Gpu, WorkerSpec
from headgate.core.errors import InvalidInput
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings, TimeOfDay
from headgate.core.week import HOUR, PROFILE, WeekLearner, decode_week, hour_of_week
from headgate.engine.aio import AsyncEngine
from headgate.engine.errors import EngineUnreachable
from headgate.engine.member import Member
from headgate.engine.questions import Explain, GetStatus
from headgate.engine.writer import Writer
from headgate.load import PoolAgent, Sampler
from headgate.load.gpu import GpuProbe
from headgate.ports import CommitFailed
from headgate.stores.memory import MemoryStore
from headgate.system import stopwatch
from headgate.testing import ManualClock, SeededChance, external, job
from tests.load.test_probes import Fake
from tests.load.world import engine_on

CLOSED = 10.0


class Waits:
    """A wait that says when it is enough, and remembers how long it was asked to wait."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.asked: list[float] = []

    def __call__(self, seconds: float) -> bool:
        self.asked.append(seconds)
        self.rounds -= 1
        return self.rounds < 0

    async def later(self, seconds: float) -> None:
        if self(seconds):
            raise asyncio.CancelledError


class Absent:
    """An engine that cannot be reached."""

    def do(self, command: c.Command[Any]) -> Any:
        raise EngineUnreachable("nobody listens")


def test_samples_come_at_every_poll_after_a_short_warm_up(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings())
    sampler, waits = Sampler([Fake(0.75)], clock), Waits(3)
    sampler.run(engine, waits)
    assert waits.asked == [0.25, 5.0, 5.0, 5.0]
    assert sampler.rating == 5.0
    assert engine.ask(GetStatus()).usable_units == 50
    sampler.stop()


def test_the_rating_rises_at_once_and_falls_with_its_half_life(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings(fall_half_life=10_000, recalculate=20_000))
    probe = Fake(0.5)
    sampler = Sampler([probe], clock)
    assert sampler.hand_in(engine) == 0.0
    probe.answer = 1.0
    clock.advance(5_000)
    assert sampler.hand_in(engine) == CLOSED
    assert engine.ask(GetStatus()).usable_units == 0, "a spike shuts the gate at once"
    probe.answer = 0.5
    clock.advance(5_000)
    assert sampler.hand_in(engine) == pytest.approx(10 * 2**-0.5, abs=1e-5)
    assert engine.ask(GetStatus()).usable_units == 0, "it opens only when capacity is recalculated"
    rating = None
    for _ in range(5):
        clock.advance(5_000)
        rating = sampler.hand_in(engine)
    assert rating is not None
    assert rating < 2
    assert engine.ask(GetStatus()).usable_units > 60
    sampler.stop()


def test_a_sampler_that_stops_shuts_the_gate(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings())
    sampler = Sampler([Fake(0.0)], clock)
    sampler.hand_in(engine)
    sampler.stop()
    clock.advance(15_000)
    assert engine.ask(GetStatus()).usable_units == 100
    clock.advance(1)
    status = engine.ask(GetStatus())
    assert (status.usable_units, status.busy, status.degraded) == (0, 10.0, ("no fresh sample from host",))


def test_an_engine_that_cannot_be_reached_is_tried_again(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings())
    sampler = Sampler([Fake(0.0)], clock)
    assert sampler.hand_in(Absent()) is None
    problems = [sampler.problem]
    assert sampler.hand_in(engine) == 0.0
    problems.append(sampler.problem)
    assert problems == ["EngineUnreachable: nobody listens", None]
    sampler.stop()


def test_a_real_thread_samples_until_it_is_stopped(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings())
    probe = Fake(0.0)
    sampler = Sampler([probe], clock, poll=5, warm_up=1)
    sampler.start(engine)
    sampler.start(engine)
    assert engine.wait_for(lambda state: bool(state.load.samples) or None, 10)
    sampler.stop()
    reads = probe.reads
    sampler.stop()
    assert probe.reads == reads
    assert not [t for t in threading.enumerate() if t.name == "headgate-sampler"]


def test_the_same_sampler_runs_on_an_event_loop_and_a_hung_probe_does_not_block_it(clock: ManualClock) -> None:
    hung = Fake(signal="memory")
    hung.hold = threading.Event()
    waits = Waits(3)

    async def scenario() -> tuple[float, dict[str, float]]:
        writer = Writer(MemoryStore(), FirstFit(), SeededChance(1), Settings())
        async with AsyncEngine(writer, clock, stopwatch=stopwatch) as engine:
            sampler = Sampler([Fake(0.5), hung], clock, limit=20)
            with pytest.raises(asyncio.CancelledError):
                await sampler.run_async(engine, waits.later)
            return sampler.rating or 0.0, engine.read(lambda state: state.load.signals)

    rating, signals = asyncio.run(scenario())
    hung.hold.set()
    assert waits.asked == [0.25, 5.0, 5.0, 5.0]
    assert (rating, signals) == (CLOSED, {"cpu": 0.0, "memory": CLOSED})


def test_a_failed_commit_is_a_problem_and_not_the_end_of_a_task(clock: ManualClock) -> None:
    class Broken:
        async def do(self, command: c.Command[Any]) -> Any:
            raise CommitFailed("disk full")

    sampler = Sampler([Fake(0.0)], clock)
    assert asyncio.run(sampler.hand_in_async(Broken())) is None
    assert sampler.problem == "CommitFailed: disk full"
    sampler.stop()


@pytest.mark.parametrize(("changes", "field"), [({"poll": 0}, "poll"), ({"probes": []}, "probes")])
def test_a_sampler_that_makes_no_sense_is_refused_by_field(
    clock: ManualClock, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Sampler(changes.pop("probes", [Fake()]), clock, **changes)
    assert refused.value.field == field


def test_the_week_is_learned_from_the_samples_and_kept_in_the_engine(clock: ManualClock) -> None:
    settings = Settings(time_of_day=TimeOfDay(), fall_half_life=1)
    engine = engine_on(clock, settings)
    clock.jump_to(100 * HOUR)
    probe = Fake(0.75)
    sampler = Sampler([probe], clock, learner=WeekLearner(), held=lambda: 0.1)
    for _ in range(3):
        sampler.hand_in(engine)
        clock.advance(5_000)
    clock.jump_to(101 * HOUR)
    sampler.hand_in(engine)
    sampler.stop()
    week = decode_week(engine.read(lambda state: state.documents[PROFILE]))
    assert week.busy[hour_of_week(100 * HOUR)] == 4.0, "rating 5, less what our own leases cause"
    assert sum(busy is not None for busy in week.busy) == 1


def test_the_sampler_of_this_machine_is_wired_with_all_its_probes(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings(time_of_day=TimeOfDay()))
    sampler = host_sampler(engine, engine.writer.settings, clock)
    signals = sampler.sample().signals
    assert {"cpu", "memory", "disk", "api_latency", "api_inflight", "api_errors"} <= set(signals)
    sampler.stop()


def test_the_sampler_of_this_machine_speaks_to_an_engine_that_another_process_could_own(
    clock: ManualClock, tmp_path: Path
) -> None:
    settings, path = Settings(time_of_day=TimeOfDay(), poll=10_000), str(tmp_path / "shared.db")
    with contextlib.ExitStack() as stack:
        owner, guest = open_engine(path, settings), open_engine(path, settings)
        stack.callback(owner.stop)
        stack.callback(guest.stop)
        assert isinstance(guest, Member)
        assert not guest.owner
        sampler = host_sampler(guest, settings, clock)
        stack.callback(sampler.stop)
        assert sampler.hand_in(guest) is not None
        assert sampler.problem is None
        assert "cpu" in owner.ask(GetStatus()).signals


# -- pools --------------------------------------------------------------------------------------------------------


def test_a_pool_agent_reports_load_gpus_and_workers(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings(fixed_busy=0))
    engine.do(c.RegisterWorker(WorkerSpec("w", "lab")))
    gpus = (Gpu("g0", "H200", 1_000, 100, 0.2, 50.0),)
    probe = Fake(0.75)
    agent = PoolAgent("lab", [probe, GpuProbe(lambda: gpus)], clock, node="n1", units=10, workers=lambda: ("w",))
    report = agent.hand_in(engine)
    assert report is not None
    assert (report.busy, report.gpus, report.workers, report.node) == (5.0, gpus, ("w",), "n1")
    assert engine.read(lambda state: state.pools["lab"].usable_units()) == 5
    agent.stop()


def test_a_machine_whose_probe_fails_takes_no_work_and_says_why(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings(fixed_busy=0))
    engine.do(c.RegisterWorker(WorkerSpec("w", "lab")))
    probe = Fake(OSError("gone"))
    agent = PoolAgent("lab", [probe], clock, settings=Settings(fall_half_life=1))
    agent.hand_in(engine)
    engine.do(c.Submit((c.NewJob("j", job("j")),)))
    reason = engine.ask(Explain("j")).reasons[0].detail()
    assert "pool lab is busy" in reason
    assert "gone" in reason
    probe.answer = 0.1
    clock.advance(5_000)
    agent.hand_in(engine)
    assert engine.read(lambda state: state.jobs["j"].lease is not None)
    agent.stop()


def test_leases_on_several_machines_respect_the_load_of_each(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings(fixed_busy=0))
    for name in ("busy", "idle"):
        engine.do(c.RegisterWorker(WorkerSpec(f"on-{name}", name, slots=4)))
    agents = [
        PoolAgent("busy", [Fake(1.0)], clock, units=10),
        PoolAgent("idle", [Fake(0.1)], clock, units=10),
    ]
    for agent in agents:
        agent.hand_in(engine)
        agent.stop()
    for number in range(3):
        engine.do(c.Submit((c.NewJob(f"j{number}", job(f"j{number}")),)))
    held = engine.read(lambda state: {worker.id: len(worker.leases) for worker in state.workers.values()})
    assert held == {"on-busy": 0, "on-idle": 3}


def test_an_agent_whose_engine_is_away_keeps_trying(clock: ManualClock) -> None:
    agent = PoolAgent("lab", [Fake(0.1)], clock)
    assert agent.hand_in(Absent()) is None
    assert agent.problem == "EngineUnreachable: nobody listens"
    waits = Waits(2)
    agent.run(Absent(), waits)
    assert waits.asked == [0.25, 5.0, 5.0]
    agent.stop()
    with pytest.raises(InvalidInput, match="pool_id"):
        PoolAgent("", [Fake()], clock)


def test_the_agent_of_this_machine_is_wired(clock: ManualClock) -> None:
    agent = pool_agent("here", units=4)
    report = agent.report()
    assert report.id == "here"
    assert report.busy is not None
    assert 0 <= report.busy <= 10
    agent.stop()


def test_an_application_that_reports_slow_requests_shuts_the_gate(clock: ManualClock) -> None:
    engine = engine_on(clock, Settings(required_sources=()))
    engine.do(c.SampleLoad("api", {"api_latency": 3.0, "api_inflight": 2.0, "api_errors": 0.0}))
    engine.do(c.Submit((c.NewJob("j", external("j")),)))
    assert engine.read(lambda state: state.jobs["j"].lease) is None
    assert engine.ask(GetStatus()).signals["api_latency"] == CLOSED
