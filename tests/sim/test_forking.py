"""Forks of the live state: the simulation goes on exactly as the engine does, and what changes is told job by job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.errors import InvalidInput
from headgate.core.job import JobKind, JobSpec
from headgate.core.ordering import FirstFit, Policy
from headgate.core.predict import Predictor
from headgate.core.state import State
from headgate.core.verify import verify
from headgate.engine.writer import Writer
from headgate.sim import (
    Changes,
    Fork,
    Shape,
    SimJob,
    fork_of,
    future,
    generate,
    outcome_text,
    sim_settings,
    what_if,
    with_recent,
)
from headgate.sim.lockstep import Frame, Lane, together
from headgate.sim.orders import Order, PolicyOrder, SideOrder, carry_out
from headgate.sim.policies import open_policy
from headgate.stores.memory import MemoryStore
from headgate.testing.edges import SeededChance
from tests.sim.test_history import Live

BEGIN = 1_000_000
HOUR = 3_600_000


class Forked(Live):
    """A live engine of which a fork is taken in the middle of its work."""

    def __init__(self, policy: Policy, at: int) -> None:
        super().__init__(policy)
        self._at = at
        self.fork: Fork | None = None
        self.granted_before = 0

    def pause(self, now: int) -> None:
        if self.fork is None and now >= self._at:
            self.fork = fork_of(self.writer.state, now)
            self.granted_before = len(self.granted)


def exact(jobs: Sequence[SimJob]) -> list[SimJob]:
    """Jobs whose submitters know exactly how long they run, so that nothing has to be guessed."""
    known = []
    for job in jobs:
        kind = msgspec.structs.replace(job.spec.kind, estimated_duration=max(1, job.run))
        known.append(SimJob(job.id, BEGIN, max(1, job.run), msgspec.structs.replace(job.spec, kind=kind)))
    return known


@pytest.mark.parametrize("policy", ["native:first-fit", "native:fcfs", "platform", "easy-backfill"])
def test_a_fork_goes_on_exactly_as_the_engine_does(policy: str) -> None:
    jobs = exact(generate("bursty", 6, Shape(jobs=80, processors=16, load=1.1, tenants=3)).jobs)
    middle = BEGIN + sum(job.run * job.spec.kind.units for job in jobs) // 16 // 3
    with open_policy(policy) as opened:
        live = Forked(opened.policy, middle)
        live.work(jobs)
    fork = live.fork
    assert fork is not None
    assert {job.lease is None for job in fork.jobs} == {True, False}
    ahead = future(fork, 100 * HOUR)
    with open_policy(policy) as opened:
        lane = Lane(opened, ahead.cluster, ahead.arriving, begin=ahead.begin)
        together([lane], HOUR)
    grants = [(grant.at, grant.job_id, grant.worker_id) for grant in lane.collector.grants]
    assert len(grants) > 10
    assert grants == live.granted[live.granted_before :]
    verify(lane.world.state)


class Queue:
    """An engine with a queue of our making, at a moment of our choosing."""

    def __init__(self, **settings: Any) -> None:
        self.store = MemoryStore()
        self.writer = Writer(
            self.store,
            FirstFit(),
            SeededChance(1),
            sim_settings(**{"total_units": 100, "preemption": False, **settings}),
        )
        self.writer.open(BEGIN)
        self.now = BEGIN

    @property
    def state(self) -> State:
        return self.writer.state

    def do(self, command: c.Command[Any]) -> None:
        self.writer.accept(command, self.now, lambda _: None)
        self.writer.flush()

    def submit(self, name: str, run: int | None = 60_000, **kind: Any) -> None:
        self.do(c.Submit((c.NewJob(name, JobSpec(JobKind(estimated_duration=run, **kind), name)),)))

    def cycle(self) -> None:
        self.writer.cycle(self.now)
        for lease in list(self.state.leases.values()):
            if lease.started_at is None:
                self.do(c.Start(lease.id, lease.token))

    def fork(self) -> Fork:
        return fork_of(self.state, self.now)


def queue(*workers: WorkerSpec, **settings: Any) -> Queue:
    made = Queue(**settings)
    for spec in workers or (WorkerSpec("w"),):
        made.do(c.RegisterWorker(spec))
    return made


def test_a_what_if_that_takes_too_long_shows_what_it_has_seen() -> None:
    live = queue()
    for n in range(20):
        live.submit(f"j{n}", 60_000)
    sides = (SideOrder(PolicyOrder("platform")), SideOrder(PolicyOrder("shortest-job-first")))
    order = Order(sides, live.fork(), horizon=HOUR, seeds=3)
    asked = iter(range(10**9))
    assert carry_out(order, lambda _: None, lambda: next(asked) >= 0) == carry_out(order, lambda _: None)
    instants = next(asked)
    for part, futures in ((0.1, 1), (0.5, 1), (0.8, 2)):
        left = iter(range(int(instants * part)))
        found = carry_out(order, lambda _: None, lambda left=left: next(left, None) is not None)  # type: ignore[misc]
        assert (found.cut, found.seeds) == (True, futures)
        assert found.notes[0].startswith("it took too long and was cut")
        assert found.jobs == 20
        assert all(side.started <= 20 for side in found.sides)
        assert (found.seconds < 3_600) == (part == 0.1)
        assert "cut" in outcome_text(found)


def test_what_if_names_who_starts_when_and_the_first_decision_that_differs() -> None:
    live = queue()
    live.submit("running", 10_000)
    live.cycle()
    for name, run in (("long", 600_000), ("short", 1_000), ("shorter", 500)):
        live.submit(name, run)
    found = what_if(live.fork(), "shortest-job-first", "native:fcfs")
    change = found.change
    assert change is not None
    assert change.divergence is not None
    assert [side.policy for side in found.sides] == ["native:fcfs", "shortest-job-first"]
    assert (change.divergence.first and change.divergence.first.job_id) == "long"
    assert (change.divergence.second and change.divergence.second.job_id) == "shorter"
    starts = {shift.job_id: (shift.before, shift.after) for shift in change.shifts}
    assert starts["long"] == (10.0, 11.5)
    assert starts["shorter"] == (611.0, 10.0)
    assert (change.better, change.worse) == (2, 1)
    assert "running" not in starts
    assert change.wait.mean < 0


def test_a_job_that_does_not_start_in_time_counts_as_waiting_until_then() -> None:
    live = queue()
    for name, run in (("a", 50_000), ("b", 600_000), ("c", 1_000)):
        live.submit(name, run)
    found = what_if(live.fork(), "shortest-job-first", "native:fcfs", horizon=100_000)
    change = found.change
    assert change is not None
    shift = next(each for each in change.shifts if each.job_id == "c")
    assert (shift.before, shift.after, shift.wait_change) == (None, 0.0, -100.0)
    assert change.jobs == 3
    assert [side.started for side in found.sides] == [2, 3]


def test_changes_combine_and_only_touch_the_second_world() -> None:
    live = queue(*(WorkerSpec(f"{pool}-{n}", pool) for pool in ("p", "q") for n in range(2)))
    live.submit("lost", 100_000)
    live.cycle()
    for n in range(8):
        live.submit(f"j{n}", 10_000)
    fork = live.fork()
    half = what_if(fork, "platform", changes=Changes(without_pools=("p",)))
    more = what_if(fork, "platform", changes=Changes(without_pools=("p",), scale=4.0))
    assert half.change is not None
    assert more.change is not None
    assert half.sides[0].mean_wait == more.sides[0].mean_wait
    assert half.change.wait.mean > 0 > more.change.wait.mean
    assert half.sides[1].changes == "without pool p"
    assert more.sides[1].changes == "without pool p, 4 times the machines"
    with pytest.raises(InvalidInput, match="no pool 'nowhere'"):
        what_if(fork, "platform", changes=Changes(without_pools=("nowhere",)))


def test_a_fork_does_not_touch_the_engine_it_was_taken_from() -> None:
    live = queue(WorkerSpec("w", slots=2))
    for n in range(6):
        live.submit(f"j{n}")
    live.cycle()
    before = {job.id: (job.state, job.attempt, job.lease and job.lease.expires_at) for job in live.state.jobs.values()}
    what_if(live.fork(), "platform")
    after = {job.id: (job.state, job.attempt, job.lease and job.lease.expires_at) for job in live.state.jobs.values()}
    assert after == before
    verify(live.state)


def test_run_times_come_from_what_ran_before_and_are_the_same_for_every_policy() -> None:
    live = queue(WorkerSpec("w", slots=4))
    predictor = live.state.predictor = Predictor()
    for n in range(400):
        predictor.ran("render", 10_000 + 50 * (n * 37 % 400))
    live.submit("now", None, type="render")
    live.cycle()
    live.now += 20_000
    for n in range(200):
        live.submit(f"j{n}", None, type="render")
    fork = msgspec.msgpack.decode(msgspec.msgpack.encode(live.fork()), type=Fork)
    ahead, again, other = (future(fork, HOUR, seed=seed) for seed in (1, 1, 2))
    runs = [begun.job.run for begun in ahead.begin.jobs]
    assert runs == [begun.job.run for begun in again.begin.jobs]
    assert runs != [begun.job.run for begun in other.begin.jobs]
    waiting = sorted(runs[1:])
    assert 9_000 < waiting[0] < 13_000
    assert 26_000 < waiting[-1] < 33_000
    assert 18_000 < waiting[len(waiting) // 2] < 22_000
    assert 20_000 < runs[0] < 33_000, "a run that has lasted 20 s is one of the longer ones"


def test_arrivals_repeat_what_came_lately() -> None:
    live = queue()
    for n in range(110):
        live.submit(f"old{n}", 1_000, tenant=f"t{n % 2}")
        live.now += 6_000
    fork = with_recent(live.fork(), live.store, 600_000)
    assert len(fork.recent) == 100
    ahead = future(fork, 120_000, arrivals="recent")
    gaps = {after.at - before.at for before, after in zip(ahead.arriving, ahead.arriving[1:], strict=False)}
    assert (len(ahead.arriving), gaps) == (20, {6_000})
    assert {job.spec.kind.tenant for job in ahead.arriving} == {"t0", "t1"}
    assert len(future(fork, 120_000, arrivals="recent", changes=Changes(load=0.5)).arriving) == 10
    assert future(fork, 120_000).arriving == ()
    again = future(fork, 2_000_000, arrivals="recent", seed=3).arriving
    assert len(again) in (333, 334), "over and over"
    with pytest.raises(InvalidInput, match="look less far ahead"):
        future(fork, 100_000 * HOUR, arrivals="recent")


def test_a_first_burst_is_no_rate() -> None:
    live = queue()
    for n in range(10):
        live.submit(f"j{n}", 1_000)
    live.now += 1_000
    fork = with_recent(live.fork(), live.store, HOUR)
    assert len(future(fork, 600_000, arrivals="recent").arriving) == 10
    assert len(future(fork, 2 * HOUR, arrivals="recent").arriving) == 120


def test_workers_that_drain_get_nothing_and_a_shut_gate_is_told() -> None:
    live = queue(WorkerSpec("w"), WorkerSpec("going"))
    live.do(c.DrainWorker("going"))
    for n in range(3):
        live.submit(f"j{n}", 1_000)
    ahead = future(live.fork(), HOUR)
    assert [spec.id for spec in ahead.cluster.workers] == ["w"]
    shut = queue(fixed_busy=10.0)
    shut.submit("j")
    found = what_if(shut.fork(), "platform")
    assert found.sides[0].started == 0
    assert any("gate is shut" in note for note in found.notes)


def test_too_many_waiting_jobs_are_left_out_and_counted() -> None:
    live = queue()
    for n in range(10):
        live.submit(f"j{n}", 1_000)
    live.cycle()
    fork = fork_of(live.state, live.now, most=4)
    assert [job.id for job in fork.jobs] == ["j0", "j1", "j2", "j3"]
    assert fork.left_out == 6


def test_frames_show_all_worlds_at_the_same_times() -> None:
    live = queue()
    for n in range(10):
        live.submit(f"j{n}", 10_000)
    sides = (SideOrder(PolicyOrder("native:fcfs")), SideOrder(PolicyOrder("platform")))
    told: list[object] = []
    carry_out(Order(sides, live.fork(), horizon=100_000, frames=10), told.append)
    frames = [message for message in told if isinstance(message, Frame)]
    assert [frame.at - BEGIN for frame in frames] == list(range(10_000, 110_000, 10_000))
    assert [frame.seen[0].ended for frame in frames] == list(range(1, 11))
    assert [start.job_id for start in frames[0].seen[0].starts] == ["j0", "j1"]
