"""Policies in charge of a real engine: placement, fallback, trips, shadow, swap, decisions and their replay."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core.cluster import ModelSpec
from headgate.core.verify import verify
from headgate.policy.deciding import PolicySettings
from headgate.policy.decisions import Replayer, history_of
from headgate.policy.errors import InvalidPolicy, PolicyForbidden, PolicyMoved, PolicyNotFound
from headgate.policy.template_library import template
from headgate.policy.verdict import HostSettings
from headgate.testing import gpu, pool, tenant, worker
from tests.policy.office import Office

SEEDED_FIRST = """-- policy: seeded-first
-- version: 1.2.0
function schedule(context)
  for _, job in ipairs(context.queue) do
    if job.seed ~= nil then
      local worker = context.helpers.find_worker(job.model_ref)
      if worker then return { action = "dispatch", job_id = job.id, worker_id = worker.id } end
    end
  end
  return platform.schedule(context)
end
"""
DETERMINISM_FIRST = """scheduler:
  name: "determinism-first"
  version: "1.0"

  rules:
    - name: "prioritize-seeded-jobs"
      condition:
        job.seed: { exists: true }
      action:
        dispatch:
          worker_selection: "least-loaded"
          model_match: required
      priority: 100

    - name: "batch-jobs-low-priority"
      condition:
        job.priority: "batch"
      action:
        dispatch:
          worker_selection: "most-vram-free"
      priority: 50

    - name: "fallback"
      condition: always
      action:
        use: "platform-scheduler"
      priority: 0
"""
BATCH_ONLY = """scheduler:
  name: "batch-optimized"
  rules:
    - name: "batch-to-most-vram"
      condition:
        job.priority: "batch"
      action:
        dispatch:
          worker_selection: "most-vram-free"
"""
QUICK: dict[str, Any] = {"contexts": 30, "jobs": 500}
HANG = "-- policy: hang\nfunction schedule(c) while true do end end"
NEVER = "-- policy: never\nfunction schedule(c) return { action = 'wait' } end"
HOLD = "-- policy: hold\nfunction schedule(c) return { action = 'wait', reason = 'later', retry_after_ms = 1000 } end"


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.stop()


def test_the_platform_policy_decides_where_nobody_has_said_otherwise(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w", slots=2)))
    office.submit("low", priority="low")
    office.submit("normal")
    office.submit("high", priority="high")
    assert [name for name, _ in office.cycle()] == ["high", "normal"]
    assert office.policies.status().deciding == "platform"
    verify(office.writer.state)


def test_a_lua_policy_prefers_jobs_with_a_seed_and_falls_back_to_the_platform(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w", slots=3)))
    office.submit("first", "second")
    office.submit("seeded", seed=7)
    version = office.policies.deploy("lua", SEEDED_FIRST, **QUICK)
    assert (version.name, version.version) == ("seeded-first", "1.2.0")
    assert [name for name, _ in office.cycle()] == ["seeded", "first", "second"]
    assert office.policies.status().deciding == version.id


def test_the_yaml_policy_of_the_specification_runs_as_it_stands(office: Office) -> None:
    office.do(c.RegisterWorker(worker("small", vram="8GB")))
    office.do(c.RegisterWorker(worker("large", vram="24GB")))
    office.submit("plain")
    office.submit("batch", priority="batch")
    office.submit("seeded", priority="background", seed=0)
    office.policies.deploy("yaml", DETERMINISM_FIRST, **QUICK)
    assert office.cycle() == [("seeded", "large"), ("batch", "small")]
    office.finish("seeded")
    assert office.cycle() == [("plain", "large")]
    reasons = [decision.actions[0].get("reason", "") for decision in office.policies.decisions() if decision.actions]
    assert "prioritize-seeded-jobs" in reasons[0]


def test_a_yaml_policy_without_priorities_and_fallback_falls_through_to_the_platform(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w", slots=2)))
    office.submit("high", priority="high")
    office.submit("batch", priority="batch")
    office.policies.deploy("yaml", BATCH_ONLY, **QUICK)
    assert [name for name, _ in office.cycle()] == ["batch", "high"]


def test_placement_respects_handlers_pools_labels_models_and_external_jobs(office: Office) -> None:
    office.do(c.ReportPool(pool("gpu", gpus=[gpu("0", vram="24GB")])))
    office.do(c.RegisterWorker(worker("typed", types=["proof"])))
    office.do(c.RegisterWorker(worker("zoned", labels={"zone": "a"})))
    office.do(c.RegisterWorker(worker("pooled", pool="gpu")))
    office.do(c.RegisterWorker(worker("loaded", model="llama")))
    office.submit("proof", type="proof", pool="default", requires={})
    office.submit("zone", requires={"zone": "a"})
    office.submit("pool", pool="gpu")
    office.submit("llm", model_ref="llama", priority="high")
    office.submit("mine", run={"kind": "external"})
    placed = dict(office.cycle())
    assert placed["zone"] == "zoned"
    assert placed["pool"] == "pooled"
    assert placed["llm"] == "loaded"
    assert placed["mine"] is None
    assert placed.get("proof") in ("typed", None)
    verify(office.writer.state)


@pytest.mark.parametrize("chosen", ["platform", "fcfs"])
def test_a_job_that_needs_a_handler_passes_by_the_worker_that_has_none(office: Office, chosen: str) -> None:
    if chosen != "platform":
        office.policies.deploy("lua", template(chosen).source, **QUICK)
    office.do(c.RegisterWorker(worker("bare", slots=9, handlers=False)))
    office.submit("named", type="report")
    assert dict(office.cycle()) == {}
    office.do(c.RegisterWorker(worker("able", slots=9)))
    office.submit("command", type="report", run={"kind": "command", "argv": ["true"]}, pool="default")
    placed = dict(office.cycle())
    assert placed["named"] == "able"
    assert "command" in placed


def test_quotas_and_capacity_hold_whatever_the_policy_says() -> None:
    office = Office(total_units=10)
    greedy = """-- policy: greedy
    function schedule(c)
      local w, j = c.workers[1], c.queue[1]
      if w and j then return { action = "dispatch", job_id = j.id, worker_id = w.id } end
      return { action = "wait" }
    end"""
    try:
        office.do(c.RegisterWorker(worker("w", slots=10)))
        office.do(c.SetTenant(tenant("t", units=4)))
        office.submit("a", "b", "c", tenant="t", units=3)
        office.policies.deploy("lua", greedy, force=True)
        assert len(office.cycle()) == 1
        assert office.policies.status().refusals >= 1
        last = office.policies.decisions()[-1]
        assert {refused.code for refused in last.refused} == {"quota"}
        verify(office.writer.state)
    finally:
        office.stop()


def test_a_policy_that_hangs_is_answered_for_and_tripped_after_repeated_failures() -> None:
    office = Office(PolicySettings(host=HostSettings(limit_ms=20), trip_after=3))
    try:
        office.do(c.RegisterWorker(worker("w", slots=8)))
        version = office.policies.deploy("lua", HANG, force=True)
        for number in range(3):
            office.submit(f"job-{number}")
            assert [name for name, _ in office.cycle()] == [f"job-{number}"]
        status = office.policies.status()
        assert status.tripped is not None
        assert status.failures.keys() <= {"timeout", "busy"}
        assert status.tripped.version == version.id
        assert status.tripped.kind.startswith("failed")
        office.submit("after")
        assert [name for name, _ in office.cycle()] == ["after"]
        assert office.policies.status().deciding == "platform"
        dumped = {decision.id: decision for decision in office.policies.decisions()}[status.tripped.decision]
        assert dumped.attempted == version.id
        assert office.policies.library.get(version.id).source == HANG
        office.policies.enable(who="operator")
        office.submit("again")
        office.cycle()
        assert office.policies.status().deciding == version.id
    finally:
        office.stop()


def test_an_error_in_lua_is_kept_with_its_traceback(office: Office) -> None:
    inner = "local function inner(c) return c.queue[1].name.x.y end"
    source = f"-- policy: broken\n{inner}\nfunction schedule(c)\n  return inner(c)\nend"
    office.do(c.RegisterWorker(worker("w")))
    office.policies.deploy("lua", source, force=True)
    office.submit("a")
    assert office.cycle() == [("a", "w")]
    failed = next(decision for decision in office.policies.decisions() if decision.failure)
    assert failed.decided_by == "platform"
    assert "policy:2" in failed.message + failed.traceback
    assert office.policies.status().failures == {"error": 1}


def test_a_policy_under_which_a_runnable_job_starves_is_tripped() -> None:
    office = Office(PolicySettings(starve_after=10_000))
    try:
        office.do(c.RegisterWorker(worker("w")))
        office.policies.deploy("lua", NEVER, **QUICK)
        office.submit("a")
        for _ in range(12):
            assert office.cycle() == [] or office.policies.status().tripped
            office.advance(1_000)
        tripped = office.policies.status().tripped
        assert tripped is not None
        assert tripped.kind == "starvation"
        assert office.writer.state.jobs["a"].lease or office.cycle()
    finally:
        office.stop()


def test_a_policy_that_says_why_it_waits_is_believed() -> None:
    office = Office(PolicySettings(starve_after=10_000))
    try:
        office.do(c.RegisterWorker(worker("w")))
        office.policies.deploy("lua", HOLD, **QUICK)
        office.submit("a")
        for _ in range(15):
            office.cycle()
            office.advance(1_000)
        assert office.policies.status().tripped is None
        assert office.writer.state.policy_wait is not None
        assert office.writer.state.policy_wait.reason == "later"
    finally:
        office.stop()


def test_a_shadow_watches_and_decides_nothing(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w", slots=4)))
    office.policies.deploy("lua", NEVER, mode="shadow", **QUICK)
    office.submit("a")
    assert [name for name, _ in office.cycle()] == ["a"]
    status = office.policies.status()
    assert (status.deciding, status.shadow_asked >= 1, status.shadow_agreed < status.shadow_asked) == (
        "platform",
        True,
        True,
    )
    first = office.policies.decisions()[0]
    assert first.shadow is not None
    assert first.shadow.actions == [{"action": "wait"}]
    office.policies.end_shadow()
    office.submit("b")
    office.cycle()
    assert office.policies.decisions()[-1].shadow is None


def test_what_a_shadow_would_have_done_can_be_asked(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w", slots=4)))
    office.submit("before")
    office.cycle()
    shadow = office.policies.deploy("lua", NEVER, mode="shadow", **QUICK)
    office.submit("one")
    office.cycle()
    office.clock.advance(1_000)
    office.submit("two")
    office.cycle()
    office.submit("too-large", units=100_000)
    office.cycle()
    found = office.policies.shadow_report()
    assert (found.version, found.since) == (shadow.id, office.clock.now() - 1_000)
    assert found.asked > found.agreed > 0, "both wait where nothing fits"
    assert found.rate == found.agreed / found.asked
    assert found.first is not None
    assert found.first.actions[0]["job_id"] == "one"
    assert found.first.shadow_actions == [{"action": "wait"}]
    assert [parting.actions[0]["job_id"] for parting in found.recent] == ["two", "one"]
    assert found.shadow_us > 0
    office.policies.end_shadow()
    assert office.policies.shadow_report().asked == found.asked, "the last one that watched is remembered"
    assert office.policies.shadow_report(since=office.clock.now()).first == found.recent[0]


def test_an_answer_that_differs_in_its_reason_alone_agrees(office: Office) -> None:
    said = SEEDED_FIRST.replace("policy: seeded-first", "policy: wordy").replace(
        "worker.id }", "worker.id, reason = 'indeed' }"
    )
    office.do(c.RegisterWorker(worker("w", slots=4)))
    office.policies.deploy("lua", SEEDED_FIRST, **QUICK)
    office.policies.deploy("lua", said, mode="shadow", **QUICK)
    office.submit("seeded", seed=7)
    office.cycle()
    found = office.policies.shadow_report()
    assert (found.asked > 0, found.rate, found.first) == (True, 1.0, None)
    assert any("indeed" in str(decision.shadow) for decision in office.policies.decisions())


def test_before_anybody_watched_there_is_nothing_to_report(office: Office) -> None:
    with pytest.raises(PolicyNotFound, match="no policy has watched"):
        office.policies.shadow_report()


def test_rolling_back_again_goes_one_further_back_and_stays_at_the_beginning(office: Office) -> None:
    first, second, third = (
        office.policies.deploy("lua", f"-- policy: {name}\n{SEEDED_FIRST}", force=True).id for name in "abc"
    )
    assert [office.policies.rollback().active for _ in range(2)] == [second, first]
    again = office.policies.deploy("lua", f"-- policy: d\n{SEEDED_FIRST}", force=True).id
    assert len({first, second, third, again}) == 4
    assert [office.policies.rollback(why="no good").active for _ in range(2)] == [first, None]
    assert office.policies.rollback().active is None
    assert office.policies.rollback(third).active == third
    assert office.policies.rollback().active is None


def test_deploying_compares_and_sets_and_rolling_back_goes_to_the_one_before(office: Office) -> None:
    first = office.policies.deploy("lua", SEEDED_FIRST, base=None, **QUICK)
    with pytest.raises(PolicyMoved):
        office.policies.deploy("lua", NEVER, base=None, **QUICK)
    second = office.policies.deploy("yaml", BATCH_ONLY, base=first.id, who="ada", why="vram", **QUICK)
    assert office.policies.library.pointer().active == second.id
    assert office.policies.rollback().active == first.id
    assert office.policies.rollback(second.id).active == second.id
    with pytest.raises(PolicyNotFound):
        office.policies.rollback("nobody")
    assert office.policies.use_platform().active is None
    moves = office.policies.library.pointer().moves
    assert [move.active for move in moves] == [first.id, second.id, first.id, second.id, None]
    assert (moves[1].who, moves[1].why) == ("ada", "vram")
    assert office.policies.deploy("lua", SEEDED_FIRST, **QUICK).created_at == first.created_at


def test_platform_mode_takes_no_policies() -> None:
    office = Office(PolicySettings(host=HostSettings(mode="platform")))
    try:
        with pytest.raises(PolicyForbidden):
            office.policies.deploy("lua", SEEDED_FIRST, force=True)
        assert office.policies.library.versions() == []
    finally:
        office.stop()


@pytest.mark.parametrize(
    ("language", "source", "says"),
    [
        ("lua", "function schedule(c)\n  return {\nend", "3:1"),
        ("lua", "x = 1", "schedule"),
        ("lua", "\x1bLJ\x02", "compiled"),
        ("lua", "-- " + "x" * (10 << 20), "at most"),
        ("yaml", "scheduler:\n  name: p\n  rules:\n    - name: r\n      condition: {job.units: {gtt: 3}}", "gt"),
        ("yaml", "a: &a [1]\nb: [*a, *a]", "anchor"),
        ("cobol", "move a to b", "lua or yaml"),
    ],
)
def test_a_source_that_cannot_run_is_refused_with_its_place_and_nothing_is_deployed(
    office: Office, language: str, source: str, says: str
) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        office.policies.deploy(language, source, force=True)
    assert says in str(refused.value)
    assert office.policies.library.versions() == []
    assert office.policies.library.pointer().active is None


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("function schedule(c) local n = c.queue[1].name return {action='wait'} end", "semantics-error"),
        (
            "function schedule(c) return { action = 'dispatch', job_id = 'ghost', worker_id = 'w' } end",
            "semantics-invalid",
        ),
        (
            "function schedule(c) if #c.queue > 5 then while true do end end return {action='wait'} end",
            "semantics-timeout",
        ),
    ],
)
def test_semantics_are_checked_on_generated_contexts(office: Office, source: str, code: str) -> None:
    checked = office.policies.validate("lua", source, contexts=20)
    assert not checked.ok
    assert {note.code for note in checked.diagnostics} == {code}
    with pytest.raises(InvalidPolicy):
        office.policies.deploy("lua", source, contexts=20)


def test_a_policy_too_slow_for_ten_thousand_jobs_is_refused(office: Office) -> None:
    slow = """function schedule(c)
      if #c.queue > 5000 then for i = 1, 1e10 do local _ = i end end
      return platform.schedule(c)
    end"""
    checked = office.policies.validate("lua", slow, contexts=3, jobs=6_000)
    assert [note.code for note in checked.diagnostics] == ["speed"]


def test_a_good_policy_is_timed(office: Office) -> None:
    checked = office.policies.validate("lua", SEEDED_FIRST, contexts=20, jobs=2_000)
    assert checked.ok
    assert 0 < checked.p50_us <= checked.p99_us < 50_000


def busy_office(decisions: int) -> Office:
    """An office in which much has happened: jobs and workers come and go under a policy with chance in it."""
    office = Office()
    draw = random.Random(3)
    source = """-- policy: chancy
    function schedule(context)
      local groups = context.groups
      if #groups > 0 then
        local job = groups[math.random(#groups)].head
        local worker = context.helpers.find_worker_round_robin(job)
        if worker then return { action = "dispatch", job_id = job.id, worker_id = worker.id, reason = "drawn" } end
      end
      return platform.schedule(context)
    end"""
    office.do(c.SetModel(ModelSpec("llama", 8 << 30, ("l",))))
    for number in range(4):
        office.do(c.RegisterWorker(worker(f"w{number}", slots=2, memory="8GB")))
    office.policies.deploy("lua", source, force=True)
    made = 0
    while len(office.writer.store.records("decision", limit=1_000_000)) < decisions:
        for _ in range(draw.randrange(1, 4)):
            made += 1
            office.submit(
                f"job-{made}",
                tenant=draw.choice("ab"),
                priority=draw.choice(("high", "normal", "batch")),
                units=draw.choice((1, 2, 5)),
                resources=draw.choice(({}, {"memory": "1GB"})),
            )
        office.cycle()
        running = [lease.job_id for lease in office.writer.state.leases.values()]
        office.finish(*draw.sample(running, min(len(running), draw.randrange(4))))
        if draw.random() < 0.1:
            office.advance(1_000)
        if draw.random() < 0.05:
            office.do(c.RegisterWorker(worker(f"w{draw.randrange(4)}", slots=draw.choice((2, 3)), memory="8GB")))
    return office


def test_a_thousand_decisions_are_replayed_identically_in_another_process() -> None:
    office = busy_office(1_000)
    try:
        decisions = office.policies.decisions()
        assert len(decisions) >= 1_000
        lua = office.policies.library.versions()[0].lua
        replayer = Replayer(lua)
        try:
            assert os.getpid() not in replayer._host.pids()
            stood_in = 0
            for decision in decisions:
                verdict = replayer.follow(decision)
                if verdict is None:
                    stood_in += 1
                    continue
                assert verdict.answer.actions == decision.actions, decision.id
                assert verdict.answer.trace == decision.trace
            assert stood_in < 50
        finally:
            replayer.stop()
    finally:
        office.stop()


def test_one_decision_is_replayed_from_its_key_frame_and_tried_under_a_draft() -> None:
    office = busy_office(60)
    try:
        decisions = office.policies.decisions()
        chosen = next(d for d in reversed(decisions) if any(a["action"] == "dispatch" for a in d.actions))
        assert history_of(decisions, chosen.id)[-1] == chosen
        assert office.policies.replay(chosen.id).same
        tried = office.policies.try_draft(chosen.id, "lua", NEVER)
        assert not tried.same
        assert tried.replayed == [{"action": "wait"}]
        with pytest.raises(LookupError):
            office.policies.replay("nobody")
    finally:
        office.stop()


def test_versions_and_the_pointer_survive_a_restart(office: Office) -> None:
    version = office.policies.deploy("lua", SEEDED_FIRST, **QUICK)
    office.writer.store.close()
    office.writer.open(office.clock.now())
    office.do(c.RegisterWorker(worker("w")))
    office.submit("plain")
    office.submit("seeded", seed=1)
    assert office.cycle() == [("seeded", "w")]
    assert office.policies.status().deciding == version.id


def test_metrics_and_logs_of_a_policy_are_kept(office: Office) -> None:
    source = """-- policy: talkative
    function schedule(c)
      metrics.emit("queue_seen", #c.queue)
      log.info("saw", #c.queue)
      return platform.schedule(c)
    end"""
    office.do(c.RegisterWorker(worker("w")))
    office.policies.deploy("lua", source, **QUICK)
    office.submit("a")
    office.cycle()
    assert "queue_seen" in office.policies.status().metrics
    assert any("saw" in text for decision in office.policies.decisions() for _, text in decision.logs)


def test_a_policy_that_goes_on_waiting_is_recorded_once(office: Office) -> None:
    office.do(c.RegisterWorker(worker("w")))
    office.policies.deploy("lua", HOLD, **QUICK)
    office.submit("a")
    for _ in range(5):
        office.cycle()
        office.clock.advance(1_000)
    assert [decision.actions[0]["reason"] for decision in office.policies.decisions()] == ["later"]
    office.submit("b")
    office.cycle()
    assert len(office.policies.decisions()) == 2
    assert office.policies.replay(office.policies.decisions()[-1].id).same
