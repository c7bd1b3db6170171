"""The forecast beside an engine: everybody can ask, a few are bet upon, and the accuracy shows in the status."""

from __future__ import annotations

from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.engine.forecast import AT_ONCE, EVERY, Forecast
from headgate.engine.questions import Explain, GetStatus
from headgate.engine.shared import SharedEngine
from headgate.engine.wire import decode_answer, encode_reply
from headgate.engine.writer import Writer
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing import ManualClock, SeededChance, job


def engine_with_forecast(disk: MemoryDisk, clock: ManualClock) -> tuple[SharedEngine, Forecast]:
    writer = Writer(MemoryStore(disk), FirstFit(), SeededChance(1), Settings(fixed_busy=0, lease_ttl=10**9))
    forecast = Forecast(writer)
    engine = SharedEngine(writer, clock)
    writer.open(clock.now())
    return engine, forecast


def submit(engine: SharedEngine, *names: str) -> None:
    engine.do(c.Submit(tuple(c.NewJob(name, job(name)) for name in names)))


def run(engine: SharedEngine, clock: ManualClock, name: str, milliseconds: int) -> None:
    lease = engine.read(lambda state: state.jobs[name].lease)
    assert lease is not None
    engine.do(c.Start(lease.id, lease.token))
    clock.advance(milliseconds)
    engine.do(c.Complete(lease.id, lease.token))


def test_the_expected_start_stands_in_the_explanation_and_the_accuracy_in_the_status() -> None:
    clock = ManualClock()
    engine, _ = engine_with_forecast(MemoryDisk(), clock)
    engine.do(c.RegisterWorker(WorkerSpec("w")))
    for number in range(12):
        submit(engine, f"past-{number}")
        run(engine, clock, f"past-{number}", 4_000)
    submit(engine, "a", "b")
    clock.advance(EVERY)
    engine.do(c.Tick())
    explanation = engine.ask(Explain("b"))
    assert explanation.expected is not None
    assert 3_000 < explanation.expected.start - clock.now() < 5_000
    assert engine.ask(Explain("a")).expected is None, "it has its lease already"
    run(engine, clock, "a", 4_000)
    accuracy = engine.ask(GetStatus()).predictions
    assert accuracy is not None
    assert (accuracy.stated, accuracy.started, accuracy.inside) == (1, 1, 1)


def test_both_travel_through_the_socket() -> None:
    clock = ManualClock()
    engine, _ = engine_with_forecast(MemoryDisk(), clock)
    engine.do(c.RegisterWorker(WorkerSpec("w")))
    submit(engine, "first", "a")
    explanation, status = engine.ask(Explain("a")), engine.ask(GetStatus())
    assert explanation.expected is not None
    assert decode_answer(Explain("a"), encode_reply(explanation)) == explanation
    assert decode_answer(GetStatus(), encode_reply(status)) == status


def test_a_flood_is_sampled() -> None:
    clock = ManualClock()
    engine, forecast = engine_with_forecast(MemoryDisk(), clock)
    engine.do(c.RegisterWorker(WorkerSpec("w")))
    submit(engine, *(f"j{number}" for number in range(1_000)))
    for _ in range(5):
        engine.do(c.Tick())
    assert forecast.predictor.accuracy.stated == AT_ONCE
    clock.advance(EVERY)
    engine.do(c.Tick())
    assert forecast.predictor.accuracy.stated == 2 * AT_ONCE


def test_a_cancelled_job_is_not_waited_for() -> None:
    clock = ManualClock()
    engine, forecast = engine_with_forecast(MemoryDisk(), clock)
    engine.do(c.RegisterWorker(WorkerSpec("w")))
    submit(engine, "runs", "waits")
    clock.advance(EVERY)
    engine.do(c.Tick())
    assert set(forecast.predictor._stated) == {"waits"}
    engine.do(c.Cancel("waits"))
    assert forecast.predictor._stated == {}


def test_a_job_that_nothing_there_can_run_is_neither_bet_upon_nor_given_a_time() -> None:
    clock = ManualClock()
    engine, forecast = engine_with_forecast(MemoryDisk(), clock)
    submit(engine, "a")
    clock.advance(EVERY)
    engine.do(c.Tick())
    assert forecast.predictor.accuracy.stated == 0
    assert engine.ask(Explain("a")).expected is None
    engine.do(c.RegisterWorker(WorkerSpec("w")))
    submit(engine, "b")
    assert engine.ask(Explain("b")).expected is not None


def test_after_a_restart_the_run_times_of_the_past_are_known() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    engine, _ = engine_with_forecast(disk, clock)
    engine.do(c.RegisterWorker(WorkerSpec("w")))
    for number in range(10):
        submit(engine, f"past-{number}")
        run(engine, clock, f"past-{number}", 30_000)
    engine.stop()
    engine, forecast = engine_with_forecast(disk, clock)
    assert 27_000 < forecast.predictor.runs.typical() < 33_000
    assert engine.ask(GetStatus()).predictions is not None


def test_without_a_forecast_nothing_is_expected() -> None:
    clock = ManualClock()
    engine = SharedEngine(Writer(MemoryStore(), FirstFit(), SeededChance(1), Settings(fixed_busy=0)), clock)
    engine.writer.open(clock.now())
    submit(engine, "a")
    assert engine.ask(Explain("a")).expected is None
    assert engine.ask(GetStatus()).predictions is None
