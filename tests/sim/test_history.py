"""A live engine's history, read back from its store, replays to the same decisions."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headgate.bootstrap.simulating import convert
from headgate.core import commands as c
from headgate.core.cluster import WorkerSpec
from headgate.core.events import Event, LeaseGranted
from headgate.core.ordering import Policy
from headgate.core.state import State
from headgate.engine.writer import Writer
from headgate.policy.deciding import PolicyEngine, PolicySettings
from headgate.policy.decisions import KIND, Replayer, load
from headgate.policy.library import Library
from headgate.policy.sources import prepare
from headgate.policy.verdict import HostSettings
from headgate.ports import Store
from headgate.sim import Cluster, Shape, SimJob, Workload, generate, read_history, read_workload, run, sim_settings
from headgate.sim.policies import open_policy, source_of
from headgate.stores.memory import MemoryStore
from headgate.stores.sqlite import SqliteStore
from headgate.testing.edges import SeededChance
from tests.sim.data import sim_job

R = TypeVar("R")
CLUSTER = Cluster(
    sim_settings(total_units=16, preemption=False), (WorkerSpec("w0", slots=9), WorkerSpec("w1", slots=9))
)


class Live:
    """An engine on a store, with workers that start what they get and finish it after its run time."""

    def __init__(self, policy: Policy, store: Store | None = None) -> None:
        self.store = store or MemoryStore()
        self.writer = Writer(self.store, policy, SeededChance(1), CLUSTER.settings)
        self.granted: list[tuple[int, str, str]] = []
        self._fresh: list[LeaseGranted] = []
        self.writer.observers.append(self._hear)

    def _hear(self, events: list[Event], _: State) -> None:
        self._fresh += [event for event in events if isinstance(event, LeaseGranted)]

    def _do(self, command: c.Command[Any], now: int) -> None:
        self.writer.accept(command, now, lambda _: None)

    def work(self, jobs: list[SimJob]) -> None:
        """Everything from the first submission to the last end."""
        begin = jobs[0].at
        self.writer.open(begin)
        for spec in CLUSTER.workers:
            self._do(c.RegisterWorker(spec), begin)
        self.prepare(begin)
        runs = {job.id: job.run for job in jobs}
        due: list[tuple[int, int, int, Any]] = [(job.at, 1, n, job) for n, job in enumerate(jobs)]
        heapq.heapify(due)
        while due:
            now = due[0][0]
            while due and due[0][0] == now:
                _, rank, _, what = heapq.heappop(due)
                self._do(c.Submit((c.NewJob(what.id, what.spec),)) if rank else what, now)
            self.writer.cycle(now)
            fresh, self._fresh = self._fresh, []
            for number, lease in enumerate(fresh):
                self.granted.append((now, lease.job_id, lease.worker_id or ""))
                self._do(c.Start(lease.lease_id, lease.token), now)
                done = c.Complete(lease.lease_id, lease.token)
                heapq.heappush(due, (now + runs[lease.job_id], 0, len(self.granted) * 1000 + number, done))
            self.writer.flush()
            self.pause(now)

    def pause(self, now: int) -> None:
        """Called whenever an instant is over."""

    def prepare(self, now: int) -> None:
        """Called before the first job."""

    def decide_by(self, lua: str | None, now: int) -> None:
        """Put a version in charge; none: the platform policy."""
        if lua is not None:
            library = Library(_Shelf(self, now))
            library.move("active", library.add(prepare("lua", lua, "simulated"), now).id, now)


class _Shelf:
    """The documents of a live engine, as a library keeps its versions in them."""

    def __init__(self, live: Live, now: int) -> None:
        self._live, self._now = live, now

    def do(self, command: c.Command[R]) -> R:
        return self._live.writer.accept(command, self._now, lambda _: None)

    def documents(self, kind: str) -> dict[str, bytes]:
        return {id_: body for (k, id_), body in self._live.writer.state.documents.items() if k == kind}


@pytest.mark.parametrize("policy", ["native:first-fit", "platform", "easy-backfill"])
def test_a_recorded_history_replays_to_the_same_decisions(policy: str) -> None:
    made = generate("bursty", 6, Shape(jobs=80, processors=16, load=1.1, tenants=3))
    with open_policy(policy) as opened:
        live = Live(opened.policy)
        live.work([SimJob(job.id, job.at + 1_000_000, job.run, job.spec) for job in made.jobs])
    recorded = read_history(live.store)
    assert (len(recorded), recorded.problems.total) == (80, 0)
    replayed = run(recorded, policy, CLUSTER)
    assert [(grant.at, grant.job_id, grant.worker_id) for grant in replayed.grants] == live.granted


@pytest.mark.parametrize("name", ["platform", "shortest-job-first"])
def test_a_database_imports_as_a_workload_and_replays_to_the_same_decisions(name: str, tmp_path: Path) -> None:
    """The whole way: a policy engine with its host on a file, the file imported, the decisions asked again."""
    made = generate("bursty", 6, Shape(jobs=60, processors=16, load=1.1, tenants=3))
    deciding = PolicyEngine(PolicySettings(host=HostSettings(limit_ms=5_000, platform_limit_ms=5_000), budget_ms=5_000))
    lua = None if name == "platform" else source_of(name)
    live = Live(deciding, SqliteStore(tmp_path / "live.db"))
    try:
        jobs = [SimJob(job.id, job.at + 1_000_000, job.run, job.spec) for job in made.jobs]
        live.prepare = lambda now: live.decide_by(lua, now)  # type: ignore[method-assign]
        live.work(jobs)
    finally:
        deciding.stop()
        live.writer.close()
    convert(str(tmp_path / "live.db"), str(tmp_path / "w.jsonl"), database=True)
    recorded = read_workload(tmp_path / "w.jsonl")
    replayed = run(recorded, name, CLUSTER)
    assert [(grant.at, grant.job_id, grant.worker_id) for grant in replayed.grants] == live.granted
    store = SqliteStore(tmp_path / "live.db")
    store.open()
    decisions = [load(row.body) for row in store.records(KIND, limit=10_000)]
    store.close()
    assert len(decisions) > 60
    with Replayer(lua, HostSettings(limit_ms=5_000, platform_limit_ms=5_000)) as replayer:
        for decision in decisions:
            verdict = replayer.follow(decision)
            assert verdict is not None
            assert verdict.answer.actions == decision.actions


def history_of(policy: str, jobs: list[SimJob], look: Callable[[Store], Workload]) -> Workload:
    with open_policy(policy) as opened:
        live = Live(opened.policy)
        live.work(jobs)
    return look(live.store)


def test_a_range_of_the_history_leaves_out_the_rest_and_says_what_never_ran() -> None:
    jobs = [
        sim_job("a", 1_000, 10),
        sim_job("b", 2_000, 10),
        sim_job("giant", 2_500, 10, units=17),
        sim_job("c", 3_000, 10),
    ]
    part = history_of("native:first-fit", jobs, lambda store: read_history(store, since=2_000, until=3_000))
    assert [job.id for job in part.jobs] == ["b"]
    assert part.problems.counts == {"never ran": 1}
