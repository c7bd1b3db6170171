"""Experiments end to end on a manual clock: who decides when, what it shows, and how it ends."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import commands as c
from headgate.core.cluster import PoolReport, WorkerSpec
from headgate.core.errors import InvalidInput
from headgate.core.tenants import TenantSpec
from headgate.policy.arms import ExperimentingEngine
from headgate.policy.deciding import PolicySettings
from headgate.policy.decisions import unpack
from headgate.policy.deltas import RunningSet
from headgate.policy.errors import PolicyForbidden
from headgate.policy.experiments import Experiment, ExperimentNotFound, ExperimentRunning, split_evenly
from headgate.policy.measuring import ExperimentReport, JobSpan, measure
from headgate.policy.statistics import interval_of_blocks
from headgate.policy.template_library import template
from headgate.policy.verdict import HostSettings
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.testing import job
from tests.policy.office import Office

PATIENT = PolicySettings(host=HostSettings(limit_ms=5_000, platform_limit_ms=5_000))
QUIET: dict[str, Any] = {
    "lease_ttl": 2**40,
    "worker_silence": 2**40,
    "pool_degraded": 2**40,
    "pool_offline": 2**40,
    "ageing": 0,
}
FCFS, SHORTEST = template("fcfs").source, template("shortest-job-first").source
BROKEN = "-- policy: broken\nfunction schedule(c) error('no') end"
WINDOW = 200_000


class Lab(Office):
    """An office whose jobs run as long as they say; time goes from event to event."""

    def __init__(self, **options: Any) -> None:
        super().__init__(PATIENT, kind=ExperimentingEngine, **QUIET, **options)
        self._due: list[tuple[int, int, int, c.Command[Any]]] = []
        self._number = 0

    def deploy(self, source: str, name: str) -> str:
        return self.policies.deploy("lua", source, name=name, mode="shadow", force=True).id

    def later(self, at: int, rank: int, command: c.Command[Any]) -> None:
        self._number += 1
        heapq.heappush(self._due, (at, rank, self._number, command))

    def arrive(self, at: int, name: str, run: int, **fields: Any) -> None:
        self.later(at, 1, c.Submit((c.NewJob(name, job(name, estimated_duration=run / 1000, **fields)),)))

    def go(self) -> None:
        """Until everything has ended."""
        while self._due:
            at = self._due[0][0]
            self.clock.advance(at - self.clock.now())
            while self._due and self._due[0][0] == at:
                self.do(heapq.heappop(self._due)[3])
            self.writer.cycle(at)
            self.writer.flush()
            for lease in list(self.writer.state.leases.values()):
                if lease.started_at is None:
                    self.do(c.Start(lease.id, lease.token))
                    run = self.writer.state.jobs[lease.job_id].kind.of.estimated_duration or 1
                    self.later(at + run, 0, c.Complete(lease.id, lease.token))

    def batches(self, count: int, every: int, seed: int, **fields: Any) -> None:
        """Again and again one long job, and short ones that stand right behind it."""
        chance = random.Random(seed)
        for n in range(count):
            at = self.clock.now() + n * every + 1
            self.arrive(at, f"long-{seed}-{n}", chance.randrange(30_000, 50_000), **fields)
            for k in range(5):
                self.arrive(at, f"short-{seed}-{n}-{k}", chance.randrange(1_000, 3_000), **fields)


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    made.do(c.RegisterWorker(WorkerSpec("w")))
    yield made
    made.stop()


def report(lab: Lab) -> ExperimentReport:
    lab.policies.end_shadow()
    return lab.policies.trials.report()


# -- who decides ----------------------------------------------------------------------------------------------------


@given(st.text("abcdef", min_size=1), st.integers(0, 200))
def test_windows_come_in_pairs_with_each_arm_once(name: str, pair: int) -> None:
    experiment = Experiment(name, None, "b", "time", 1_000, 5_000, {})
    first, second = (experiment.arm_at(5_000 + (2 * pair + n) * 1_000 + 999) for n in range(2))
    assert {first, second} == {"a", "b"}
    assert experiment.arm_at(5_000 + 2 * pair * 1_000) == first


def test_chance_decides_which_arm_is_first() -> None:
    experiment = Experiment("x", None, "b", "time", 1_000, 0, {})
    firsts = [experiment.arm_at(2_000 * pair) for pair in range(200)]
    assert 70 < firsts.count("a") < 130


@given(st.sets(st.text("abcdef", min_size=1, max_size=5), min_size=2, max_size=30))
def test_tenants_are_split_evenly_and_always_alike(names: set[str]) -> None:
    arms = list(split_evenly("x", sorted(names)).values())
    assert abs(arms.count("a") - arms.count("b")) <= 1
    assert split_evenly("x", sorted(names, reverse=True)) == split_evenly("x", sorted(names))


# -- what it shows --------------------------------------------------------------------------------------------------


def test_a_policy_that_is_truly_better_is_clearly_better(lab: Lab) -> None:
    a, b = lab.deploy(FCFS, "fcfs"), lab.deploy(SHORTEST, "shortest")
    experiment = lab.policies.trials.start(a, b, split="time", window=WINDOW, why="shorter waits?")
    lab.batches(2 * 32, WINDOW // 2, seed=1)
    lab.go()
    found = report(lab)
    assert found.blocks >= 15
    assert (found.a.version, found.b.version) == (a, b)
    assert found.a.jobs > 50 < found.b.jobs
    assert found.wait is not None
    assert found.slowdown is not None
    assert found.utilisation is not None
    assert found.wait.clear
    assert -40 < found.wait.high < -20, "short jobs no longer wait for the long one"
    assert found.slowdown.high < 0
    assert not found.utilisation.clear, "the same work is done either way"
    assert 0 < found.a.utilisation < 1
    for decision in lab.policies.decisions():
        if decision.arm:
            arm = experiment.arm_at(decision.at)
            assert (decision.arm, decision.version) == (experiment.label(arm), experiment.version(arm))


def test_between_equal_policies_there_is_no_clear_difference(lab: Lab) -> None:
    a, b = lab.deploy(FCFS, "fcfs"), lab.deploy(FCFS + "\n-- the same in other words\n", "also-fcfs")
    lab.policies.trials.start(a, b, split="time", window=WINDOW)
    lab.batches(2 * 32, WINDOW // 2, seed=2)
    lab.go()
    found = report(lab)
    assert found.a.jobs > 50 < found.b.jobs
    for interval in (found.wait, found.slowdown, found.utilisation):
        assert interval is not None
        assert interval.low <= 0 <= interval.high
        assert interval.low < interval.high


def test_a_split_by_tenant_gives_each_policy_its_own_tenants(lab: Lab) -> None:
    for name in ("north", "south"):
        lab.do(c.RegisterWorker(WorkerSpec(name, name)))
        lab.do(c.SetTenant(TenantSpec(name)))
    a, b = lab.deploy(FCFS, "fcfs"), lab.deploy(SHORTEST, "shortest")
    experiment = lab.policies.trials.start(a, b, split="tenant", window=WINDOW)
    assert sorted(experiment.assigned.values()) == ["a", "b"]
    for seed, tenant in ((3, "north"), (4, "south")):
        lab.batches(2 * 10, WINDOW // 2, seed=seed, tenant=tenant, pool=tenant)
    lab.go()
    found = report(lab)
    assert found.a.jobs > 50 < found.b.jobs
    assert found.wait is not None
    assert found.wait.high < 0
    versions = {experiment.label("a"): a, experiment.label("b"): b}
    tenants: dict[str, set[str]] = {label: set() for label in versions}
    for decision in lab.policies.decisions():
        if decision.arm:
            assert decision.version == versions[decision.arm]
            names = [action["job_id"] for action in decision.actions if action["action"] == "dispatch"]
            tenants[decision.arm] |= {lab.writer.state.jobs[name].kind.of.tenant for name in names}
    assert {label: {experiment.arm_of(name) for name in seen} for label, seen in tenants.items()} == {
        experiment.label("a"): {"a"}, experiment.label("b"): {"b"},
    }  # fmt: skip


def test_a_split_by_pool_gives_each_policy_its_own_workers(lab: Lab) -> None:
    lab.do(c.RemoveWorker("w"))
    for pool in ("east", "west"):
        lab.do(c.ReportPool(PoolReport(pool)))
        lab.do(c.RegisterWorker(WorkerSpec(f"{pool}-1", pool)))
    lab.do(c.RemovePool("default"))
    a, b = lab.deploy(FCFS, "fcfs"), lab.deploy(SHORTEST, "shortest")
    experiment = lab.policies.trials.start(a, b, split="pool", window=WINDOW)
    lab.batches(20, WINDOW // 2, seed=5)
    lab.go()
    found = report(lab)
    assert found.a.jobs + found.b.jobs > 80
    for decision in lab.policies.decisions():
        told = {delta.worker_id for delta in unpack(decision.frame) if isinstance(delta, RunningSet)}
        assert all(decision.arm in ("", experiment.label(experiment.arm_of(name[:-2]))) for name in told)
    pools = {arm: {worker.removesuffix("-1") for worker in _workers(lab, experiment.label(arm))} for arm in ("a", "b")}
    assert {arm: {experiment.arm_of(pool) for pool in seen} for arm, seen in pools.items()} == {"a": {"a"}, "b": {"b"}}


def _workers(lab: Lab, label: str) -> set[str]:
    mine = [decision for decision in lab.policies.decisions() if decision.arm == label]
    return {str(action["worker_id"]) for decision in mine for action in decision.actions if "worker_id" in action}


def test_jobs_that_never_start_count_as_waiting() -> None:
    experiment = Experiment("x", None, "b", "tenant", 1_000, 0, {"t": "a", "u": "b"})
    jobs = [JobSpan(f"j{n}", tenant, 1, n * 1_000, n * 1_000 if tenant == "t" else None, n * 1_000 + 500)
            for n in range(10) for tenant in ("t", "u")]  # fmt: skip
    found = measure(experiment, jobs, 10_000, 10, {})
    assert (found.blocks, found.b.waiting, found.a.wait) == (10, 10, 0.0)
    assert found.wait is not None
    assert found.wait.low > 0
    assert found.a.utilisation == pytest.approx(0.05)


def test_the_interval_holds_as_often_as_it_says_also_with_few_blocks() -> None:
    chance = random.Random(1)
    held = 0
    for _ in range(300):
        interval = interval_of_blocks([chance.gauss(0, 1) for _ in range(6)])
        assert interval is not None
        held += not interval.clear
    assert 270 <= held <= 299
    assert interval_of_blocks([1.0] * 4) is None


# -- how it begins and ends -----------------------------------------------------------------------------------------


def test_every_decision_of_an_experiment_replays_to_the_same_answer(lab: Lab) -> None:
    lab.do(c.RegisterWorker(WorkerSpec("v")))
    for name in ("north", "south"):
        lab.do(c.SetTenant(TenantSpec(name)))
    lab.policies.trials.start(None, lab.deploy(SHORTEST, "shortest"), split="tenant", window=WINDOW)
    for seed, tenant in ((3, "north"), (4, "south")):
        lab.batches(2, WINDOW // 2, seed=seed, tenant=tenant)
    lab.go()
    decisions = [decision for decision in lab.policies.decisions() if decision.arm]
    assert {decision.arm[-1] for decision in decisions} == {"a", "b"}
    for decision in decisions[::7]:
        assert lab.policies.replay(decision.id).same, decision.id


def test_a_policy_that_has_to_be_taken_out_ends_the_experiment(lab: Lab) -> None:
    good, bad = lab.deploy(FCFS, "fcfs"), lab.deploy(BROKEN, "broken")
    lab.policies.library.move("active", good, lab.clock.now())
    lab.policies.trials.start(good, bad, split="time", window=WINDOW)
    lab.batches(2, WINDOW, seed=6)
    lab.go()
    found = lab.policies.trials.experiments.get()
    assert not found.running
    assert "arm b" in found.ended_why
    assert bad in found.ended_why
    assert lab.policies.status().deciding == good
    assert lab.policies.status().tripped is None
    assert all(state.state == "completed" for state in lab.writer.state.jobs.values())


def test_where_the_active_policy_is_taken_out_the_platform_decides(lab: Lab) -> None:
    good, bad = lab.deploy(FCFS, "fcfs"), lab.deploy(BROKEN, "broken")
    lab.policies.library.move("active", bad, lab.clock.now())
    lab.policies.trials.start(bad, good, split="time", window=WINDOW)
    lab.batches(2, WINDOW, seed=6)
    lab.go()
    assert not lab.policies.trials.experiments.get().running
    assert lab.policies.status().deciding == "platform"
    assert lab.policies.status().tripped is not None


def test_an_experiment_outlives_a_restart() -> None:
    disk = MemoryDisk()
    lab = Lab(store=MemoryStore(disk))
    lab.do(c.RegisterWorker(WorkerSpec("w")))
    a, b = lab.deploy(FCFS, "fcfs"), lab.deploy(SHORTEST, "shortest")
    experiment = lab.policies.trials.start(a, b, split="time", window=WINDOW)
    lab.batches(4, WINDOW // 2, seed=7)
    lab.go()
    at = lab.clock.now()
    lab.stop()
    again = Lab(store=MemoryStore(disk), at=at)
    try:
        assert again.policies.trials.experiments.running() == experiment
        again.batches(8, WINDOW // 2, seed=8)
        again.go()
        fresh = [decision for decision in again.policies.decisions() if decision.at > at]
        assert {decision.arm for decision in fresh} == {experiment.label("a"), experiment.label("b")}
        for decision in fresh:
            assert decision.arm == experiment.label(experiment.arm_at(decision.at))
    finally:
        again.stop()


def test_stopping_keeps_the_arm_that_is_named(lab: Lab) -> None:
    a, b = lab.deploy(FCFS, "fcfs"), lab.deploy(SHORTEST, "shortest")
    trials = lab.policies.trials
    started = trials.start(a, b, window=WINDOW)
    with pytest.raises(ExperimentRunning):
        trials.start(None, b, window=WINDOW)
    stopped = trials.stop(keep="b", why="it is better")
    assert (stopped.id, stopped.ended_why, stopped.running) == (started.id, "it is better", False)
    lab.batches(1, WINDOW, seed=9)
    lab.go()
    assert lab.policies.status().deciding == b
    assert trials.stop() == stopped
    with pytest.raises(InvalidInput, match="ended already"):
        trials.stop(keep="a")


def test_whoever_puts_a_policy_in_charge_ends_the_experiment(lab: Lab) -> None:
    b = lab.deploy(SHORTEST, "shortest")
    for end in (lab.policies.rollback, lab.policies.use_platform, lambda: lab.policies.deploy("lua", FCFS, force=True)):
        lab.policies.trials.start(None, b, window=WINDOW)
        end()
        assert lab.policies.trials.experiments.running() is None


def test_what_makes_no_experiment_is_refused(lab: Lab) -> None:
    b, trials = lab.deploy(SHORTEST, "shortest"), lab.policies.trials
    for options, field in (
        ({"a": b, "b": b}, "b"),
        ({"a": None, "b": b, "window": 10}, "window"),
        ({"a": None, "b": b, "split": "tenant"}, "split"),
    ):
        with pytest.raises(InvalidInput) as refused:
            trials.start(**options)
        assert refused.value.field == field
    with pytest.raises(ExperimentNotFound):
        trials.report()
    plain = Office()
    try:
        with pytest.raises(PolicyForbidden):
            _ = plain.policies.trials
    finally:
        plain.stop()
