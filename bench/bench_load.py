"""What looking at the machine costs: CPU time of one poll, as a share of one core at the default poll of 5 s.

Goal: under 1 % of one core. Also printed: taking in one request of an application, and one expected start.
"""

from __future__ import annotations

import time

from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.job import JobKind, JobSpec
from headgate.core.ordering import FirstFit
from headgate.core.predict import Predictor
from headgate.core.settings import Settings
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.load.api import ApiRecorder
from headgate.load.detect import host_probes
from headgate.load.gpu import find_gpus
from headgate.load.sampler import POLL, Sampler
from headgate.stores.memory import MemoryStore
from headgate.system import SystemChance, SystemClock

GOAL = 0.01
POLLS = 200


def polling(clock: SystemClock, engine: SharedEngine) -> float:
    """Seconds of CPU time, in all threads of this process, that one poll takes."""
    nvml = find_gpus()
    probes = [*host_probes(clock, gpus=None if nvml is None else nvml.gpus), ApiRecorder()]
    sampler = Sampler(probes, clock)
    print(f"probes: {', '.join(probe.name for probe in probes)}")
    began = time.process_time()
    for _ in range(POLLS):
        time.sleep(0.01)  # counters need some time to move; sleeping costs nothing here
        sampler.hand_in(engine)
    took = (time.process_time() - began) / POLLS
    assert sampler.last is not None
    sampler.stop()
    return took


def observing() -> float:
    """Seconds that taking in one request takes."""
    recorder, rounds = ApiRecorder(), 100_000
    began = time.perf_counter()
    for _ in range(rounds):
        recorder.begin()
        recorder.observe(0.012)
        recorder.end()
    took = (time.perf_counter() - began) / rounds
    assert recorder.read()["api_latency"] > 0
    return took


def predicting(engine: SharedEngine, queued: int) -> float:
    """Seconds that one expected start takes with so many jobs waiting."""
    kinds = [JobKind(type=f"type-{number % 16}", units=1 + number % 4) for number in range(16)]
    jobs = tuple(c.NewJob(f"j{queued}-{n}", JobSpec(kinds[n % 16], "j")) for n in range(queued))
    engine.do(c.Submit(jobs))
    predictor, rounds = Predictor(), 200
    began = time.perf_counter()
    for _ in range(rounds):
        found = engine.read(lambda state: predictor.estimate(state, jobs[-1].id, engine.clock.now()))
        assert found is not None
    return (time.perf_counter() - began) / rounds


def main() -> None:
    """Print the three figures."""
    clock = SystemClock()
    with SharedEngine(Writer(MemoryStore(), FirstFit(), SystemChance(), Settings()), clock) as engine:
        poll = polling(clock, engine)
        share = poll / (POLL / 1000)
        verdict = "reached" if share < GOAL else "MISSED"
        print(f"one poll: {poll * 1e3:.2f} ms of CPU time, {share:.3%} of a core at the default poll (1 %: {verdict})")
        print(f"one request of an application: {observing() * 1e6:.2f} us")
        engine.do(c.RegisterWorker(WorkerSpec("w", slots=16)))
        for queued in (1_000, 100_000):
            print(f"one expected start, {queued} waiting: {predicting(engine, queued) * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
