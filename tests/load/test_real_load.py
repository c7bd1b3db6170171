"""Real load on a real machine: a process that burns CPU or fills memory shuts the gate, and it opens when that ends.

Each is measured in a small control group of its own, so that neighbours neither help nor hinder; everything is waited
for by what the process or the engine says.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from headgate.core import commands as c
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings, Threshold
from headgate.engine.questions import Explain, GetStatus
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.load.cgroup import Cgroup
from headgate.load.host import CpuProbe, MemoryProbe
from headgate.load.sampler import Sampler
from headgate.stores.memory import MemoryStore
from headgate.system import SystemClock, stopwatch
from headgate.testing import ManualClock, SeededChance, external
from tests.load.groups import CPU, MEMORY, enter, limited
from tests.load.world import engine_on

POLL = 1_000
WITHIN = 60.0
BURNER = """
import sys, threading
burning = threading.Event()

def burn():
    while burning.wait():
        for _ in range(50_000): pass
        sys.stdout.write("."); sys.stdout.flush()

threading.Thread(target=burn, daemon=True).start()
for line in sys.stdin:
    burning.set() if line == "burn\\n" else burning.clear()
"""
EATER = """
import sys
held = None
for line in sys.stdin:
    held = b"x" * int(line)
    print(len(held), flush=True)
"""


class Program:
    """A process in a control group that does what it is told and says when it has begun."""

    def __init__(self, source: str, groups: list[Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        enter(groups, self.process.pid)

    def tell(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words.encode() + b"\n")

    def hear(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.read(1)

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def program(source: str, what: str) -> Iterator[Program]:
    with limited(what) as groups, contextlib.closing(Program(source, groups)) as made:
        yield made


class Polls:
    """The engine as the sampler sees it; notes what each poll was rated, and how much CPU the process had had."""

    def __init__(self, engine: SharedEngine, burner: psutil.Process) -> None:
        self._engine = engine
        self._burner = burner
        self.noted: list[tuple[float, float, float]] = []

    def do(self, command: c.Command[Any]) -> Any:
        rating = self._engine.do(command)
        times = self._burner.cpu_times()
        self.noted.append((rating, stopwatch(), times.user + times.system))
        return rating

    def share(self, place: int) -> float:
        """How much of what it was allowed the process used before a poll, by its own account."""
        (_, began, first), (_, ended, last) = self.noted[place - 1], self.noted[place]
        return (last - first) / (CPU * (ended - began))


def state_of(engine: SharedEngine, job_id: str) -> str:
    return engine.read(lambda state: str(state.jobs[job_id].state))


def submit(engine: SharedEngine, job_id: str, units: int) -> None:
    engine.do(c.Submit((c.NewJob(job_id, external(job_id, units=units)),)))


def test_a_burning_process_stops_new_leases_within_two_polls_and_its_end_lets_them_resume() -> None:
    # The gate opens again as soon as the load is gone, so that the test need not wait a minute for it.
    settings = Settings(fall_half_life=1, recalculate=1, poll=POLL, stale_polls=30)
    clock = SystemClock()
    with program(BURNER, "cpu") as burner, contextlib.ExitStack() as stack:
        cgroup = Cgroup(pid=str(burner.process.pid))
        limit = cgroup.cpu()
        assert limit is not None
        assert limit.cpus == CPU, "the group's limit counts, not the machine's cores"
        engine = stack.enter_context(SharedEngine(Writer(MemoryStore(), FirstFit(), SeededChance(1), settings), clock))
        polls = Polls(engine, psutil.Process(burner.process.pid))
        sampler = Sampler([CpuProbe(clock, cgroup)], clock, poll=POLL, limit=POLL)
        stack.callback(sampler.stop)
        sampler.start(polls)
        # 1. quiet: work is granted
        submit(engine, "before", 10)
        assert engine.wait_for(lambda state: state.jobs["before"].lease, WITHIN) is not None
        lease = engine.read(lambda state: state.jobs["before"].lease)
        assert lease is not None
        engine.do(c.Start(lease.id, lease.token))
        # 2. it burns: from its first sign of life, two polls are enough
        burner.tell("burn")
        assert burner.hear() == b"."
        begun = len(polls.noted)
        assert engine.wait_for(lambda _: len(polls.noted) >= begun + 2 or None, WITHIN)
        busy, full = max(rating for rating, _, _ in polls.noted[begun : begun + 2]), polls.share(begun + 1)
        if busy <= 8 and full < 0.9:
            pytest.skip(f"REAL LOAD NOT TESTED: neighbours left the process {full:.0%} of a fifth of a core")
        assert busy > 8
        submit(engine, "during", 30)
        engine.do(c.Heartbeat(lease.id, lease.token))
        assert state_of(engine, "during") == "queued", "no new lease while it burns"
        assert "cpu is rated" in engine.ask(Explain("during")).reasons[-1].detail()
        assert engine.ask(GetStatus()).usable_units < 30
        assert state_of(engine, "before") == "running", "a lease that is out lives on"
        # 3. it rests: work is granted again
        burner.tell("rest")
        assert engine.wait_for(lambda state: state.jobs["during"].lease, WITHIN) is not None
        assert engine.ask(GetStatus()).busy < 7
        engine.do(c.Complete(lease.id, lease.token))
        assert state_of(engine, "before") == "completed"


def test_a_process_that_fills_memory_raises_the_rating_at_the_next_poll(clock: ManualClock) -> None:
    used = psutil.virtual_memory().percent / 100
    if used > 0.5:  # the fuller of group and machine counts
        pytest.skip(f"REAL LOAD NOT TESTED: {used:.0%} of the machine's memory are in use")
    settings = Settings(signals={"memory": Threshold(0.6, 0.75, 1.0)}, fall_half_life=1, recalculate=1)
    with program(EATER, "memory") as eater:
        engine, sampler = engine_on(clock, settings), None
        eater.tell("1")
        assert eater.line() == b"1\n"
        try:
            sampler = Sampler([MemoryProbe(Cgroup(pid=str(eater.process.pid)))], clock)
            assert sampler.hand_in(engine) == 0
            eaten = MEMORY * 9 // 10 - (20 << 20)
            eater.tell(str(eaten))
            assert eater.line() == f"{eaten}\n".encode()
            clock.advance(5_000)
            assert sampler.hand_in(engine) == 10
            engine.do(c.Submit((c.NewJob("j", external("j", units=40)),)))
            assert engine.read(lambda state: state.jobs["j"].lease) is None
            eater.tell("1")
            assert eater.line() == b"1\n"
            clock.advance(5_000)
            assert sampler.hand_in(engine) == 0
            assert engine.read(lambda state: state.jobs["j"].lease) is not None
        finally:
            if sampler is not None:
                sampler.stop()
