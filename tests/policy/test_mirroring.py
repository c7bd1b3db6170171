"""What is told bit by bit adds up to what would be told at once, and what is recorded to what was told."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from headgate.core import commands as c
from headgate.core.actions import Dispatch, Preempt
from headgate.core.decide import decide
from headgate.core.errors import HeadgateError
from headgate.core.events import Failure
from headgate.core.ordering import FirstFit
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.policy.deciding import PolicySettings
from headgate.policy.decisions import DecisionLog, unpack
from headgate.policy.deltas import (
    MetricsSet,
    Reset,
    RunningRemoved,
    RunningSet,
    WorkerChanged,
    WorkerRemoved,
    WorkerSet,
)
from headgate.policy.mirroring import Mirroring
from headgate.policy.runtime import Runtime
from headgate.policy.verdict import HostSettings
from headgate.testing import job, worker
from tests.policy.office import Office
from tests.policy.world import QUESTION

# Everything but shares of tenants, which are told when something happens to the tenant.
DUMP = """
local parts = {}
local function say(...) for i = 1, select("#", ...) do parts[#parts + 1] = tostring((select(i, ...))) end end
local function fields(t) for k, v in pairs(t) do say(k, type(v) == "table" and "" or v) end end
function schedule(c)
  for _, w in ipairs(c.workers) do
    fields(w) fields(w.resources_free) fields(w.labels)
    for _, r in ipairs(w.current_jobs) do fields(r) fields(r.resources) end
  end
  for _, p in ipairs(c.pools) do
    say(p.id, p.status, #p.workers)
    for _, w in ipairs(p.workers) do say(w.id) end
  end
  for _, j in ipairs(c.queue) do fields(j) end
  for _, t in ipairs(c.tenants) do say(t.id, t.weight) fields(t.usage) fields(t.quotas) end
  fields(c.metrics)
  local text = table.concat(parts, ",")
  for i = 1, #text, 500 do log.info(text:sub(i, i + 499)) end
  return { action = "wait" }
end"""
DOINGS = ("submit", "submit", "cycle", "cycle", "start", "complete", "fail", "release", "beat", "register", "describe",
          "drain", "remove", "claim", "patch", "preempt", "wait", "cancel", "tell", "tell")  # fmt: skip


class Life:
    """An engine's core under random commands; those that are refused change nothing."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.state = State(Settings(fixed_busy=0, lease_ttl=10_000, stagger=0))
        self.mirroring = Mirroring()
        self.now = self.number = 0

    def do(self, command: c.Command[Any]) -> None:
        try:
            outcome = decide(self.state, command, self.now)
        except HeadgateError:
            return
        self.mirroring.observe(list(outcome.events), self.state)

    def step(self, doing: str) -> None:
        pick, leases = self.chance.choice, list(self.state.leases.values())
        name = f"w{self.chance.randrange(3)}"
        lease = pick(leases) if leases else None
        if doing == "submit":
            self.number += 1
            limits = {"retry": {"attempts": 3}, "priority": pick(["high", "normal", "low"])}
            spec = job(f"j{self.number}", resources={"cpu": self.chance.randrange(3)}, **limits)
            self.do(c.Submit((c.NewJob(f"j{self.number}", spec),)))
        elif doing == "cycle":
            self.do(c.Schedule(tuple(FirstFit().propose(self.state, self.now))))
        elif doing in ("register", "describe"):
            self.do(c.RegisterWorker(worker(name, slots=1 + self.chance.randrange(3), cpu=pick([2, 4]),
                                            pull=pick([False, False, True]))))  # fmt: skip
        elif doing == "wait":
            self.now += pick([1, 1_000, 6_000, 11_000])
            self.do(c.Tick())
        elif doing == "preempt":
            first = next(iter(self.state.ready), None)
            if first is not None and lease is not None:
                self.do(c.Schedule((Preempt(first.id, (lease.job_id,), ""),)))
        elif doing in ("drain", "remove", "claim", "beat"):
            act = {"drain": c.DrainWorker, "remove": c.RemoveWorker, "beat": c.WorkerBeat}
            self.do(c.Claim(name, 2) if doing == "claim" else act[doing](name))
        elif lease is not None:
            self._on_lease(doing, lease)

    def _on_lease(self, doing: str, lease: Any) -> None:
        verbs: dict[str, Any] = {
            "start": lambda: c.Start(lease.id, lease.token),
            "complete": lambda: c.Complete(lease.id, lease.token),
            "fail": lambda: c.Fail(lease.id, lease.token, Failure("no")),
            "release": lambda: c.Release(lease.id, lease.token),
            "cancel": lambda: c.Cancel(lease.job_id),
        }
        if doing in verbs:
            self.do(verbs[doing]())


def look(runtime: Runtime) -> list[str]:
    answer = runtime.ask(QUESTION)
    assert answer.error is None, answer.error
    return [text for _, text in answer.logs]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(DOINGS), min_size=20, max_size=80))
def test_news_add_up_to_everything(seed: int, doings: list[str]) -> None:
    life, followed = Life(seed), Runtime()
    followed.load(DUMP)
    for name in ("w0", "w1"):
        life.do(c.RegisterWorker(worker(name, slots=2, cpu=4)))
    followed.apply(life.mirroring.everything(life.state, life.now))
    for doing in [*doings, "tell"]:
        life.step(doing)
        if doing == "tell":
            followed.apply(life.mirroring.news(life.state, life.now))
            fresh = Runtime()
            fresh.load(DUMP)
            fresh.apply(life.mirroring.snapshot(life.state, life.now))
            assert look(followed) == look(fresh)


def test_a_job_that_begins_or_ends_travels_without_the_others_of_its_worker() -> None:
    life = Life(0)
    life.do(c.RegisterWorker(worker("w0", slots=3, cpu=4)))
    for name in ("a", "b"):
        life.do(c.Submit((c.NewJob(name, job(name)),)))
    life.do(c.Schedule((Dispatch("a", "w0", ""),)))
    life.mirroring.everything(life.state, life.now)
    life.do(c.Schedule((Dispatch("b", "w0", ""),)))
    told = life.mirroring.news(life.state, life.now)
    assert [delta.job.id for delta in told if isinstance(delta, RunningSet)] == ["b"]
    assert [delta.changes for delta in told if isinstance(delta, WorkerChanged)] == [["slots_free", 1]]
    lease = life.state.jobs["a"].lease
    assert lease is not None
    life.do(c.Start(lease.id, lease.token))
    life.do(c.Complete(lease.id, lease.token))
    told = life.mirroring.news(life.state, life.now)
    assert [delta.job_id for delta in told if isinstance(delta, RunningRemoved)] == ["a"]
    assert not any(isinstance(delta, WorkerSet) for delta in told)
    assert not life.mirroring.news(life.state, life.now)


def test_what_was_told_with_a_question_that_is_not_recorded_is_in_the_next_record() -> None:
    log = DecisionLog()
    first = log.told([Reset(), MetricsSet({"a": 1.0})], key=True)
    assert unpack(first)
    nothing_came_of_it = log.next_id(1)
    again = log.told([WorkerRemoved("w")], key=False)
    second = log.next_id(2)
    assert unpack(again) == [Reset(), MetricsSet({"a": 1.0}), WorkerRemoved("w")]
    assert log.holds_key
    assert log.key_id == second != nothing_came_of_it
    log.recorded()
    log.told([MetricsSet({"a": 2.0, "b": 3.0})], key=False)
    assert unpack(log.told([MetricsSet({"b": 4.0})], key=False)) == [MetricsSet({"a": 2.0, "b": 4.0})]
    assert log.next_id(3) != log.key_id == second


def test_a_policy_that_says_nothing_leaves_no_hole_in_the_record() -> None:
    office = Office(PolicySettings(host=HostSettings(limit_ms=5_000, platform_limit_ms=5_000)))
    try:
        silent = "function schedule(c) if #c.queue < 3 then return nil end return platform.schedule(c) end"
        office.policies.deploy("lua", silent, force=True)
        office.do(c.RegisterWorker(worker("w", slots=4)))
        for name in ("a", "b", "c"):
            office.submit(name)
            office.cycle()
        (decision,) = office.policies.decisions()
        assert [action.get("job_id") for action in decision.actions] == ["a"]
        assert decision.keyframe
        assert office.policies.replay(decision.id).same
    finally:
        office.stop()
