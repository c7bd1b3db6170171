"""The asking loop: one question, many answers, each seen in the next view; afterwards all is as the engine left it."""

from __future__ import annotations

import msgspec
import pytest

from headgate.policy.deltas import Answer, JobRemoved, MetricsSet, Question, TenantSet, WorkerRemoved
from headgate.policy.runtime import USER, Runtime
from tests.policy.world import NOW, QUESTION, evaluate, job, runtime_with, state, worker

TAKE_HEAD = """
function schedule(c)
  local j = c.queue[1]
  local w = j and c.helpers.find_worker_round_robin()
  if not w then return { action = "wait", reason = "done" } end
  return { action = "dispatch", job_id = j.id, worker_id = w.id }
end"""


def ask(runtime: Runtime, source: str, **changes: int) -> Answer:
    runtime.load(source)
    return runtime.ask(msgspec.structs.replace(QUESTION, **changes), USER)


def small(jobs: int = 6) -> Runtime:
    workers = [
        worker("w-1", slots=2, slots_free=2, resources_free={"cpu": 3}),
        worker("w-2", resources_free={"cpu": 1}),
    ]
    metrics = MetricsSet({"usable_units": 10, "leased_units": 0})
    return runtime_with(
        metrics, TenantSet("default"), *workers, *(job(n, resources={"cpu": 1}) for n in range(1, jobs + 1))
    )


def pairs_of(answer: Answer) -> list[tuple[str, str]]:
    return [(a["job_id"], a["worker_id"]) for a in answer.actions if a["action"] == "dispatch"]


def test_a_cycle_goes_on_until_there_is_no_room() -> None:
    answer = ask(small(), TAKE_HEAD)
    assert pairs_of(answer) == [("job-1", "w-1"), ("job-2", "w-2"), ("job-3", "w-1")]
    assert answer.stopped == "wait"


def test_a_cycle_ends_at_its_number_of_answers() -> None:
    answer = ask(small(), TAKE_HEAD, max_answers=2)
    assert len(answer.actions) == 2
    assert answer.stopped == "limit"


def test_a_cycle_ends_at_its_time_budget() -> None:
    slow = "local x = 0 for i = 1, 3e6 do x = x + i % 3 end"
    answer = ask(small(), TAKE_HEAD.replace("local j =", slow + " local j =", 1), budget_ms=1)
    assert len(answer.actions) == 1
    assert answer.stopped == "budget"


def test_a_cycle_ends_at_an_answer_that_does_not_hold() -> None:
    greedy = "function schedule(c) return { action = 'dispatch', job_id = c.queue[1].id, worker_id = 'w-2' } end"
    answer = ask(small(), greedy)
    assert pairs_of(answer) == [("job-1", "w-2"), ("job-2", "w-2")]
    assert answer.stopped == "refusal"


def test_the_view_shows_the_effect_of_the_last_answer() -> None:
    look = """
    local asked = 0
    function schedule(c)
      asked = asked + 1
      local w, t, m = c.workers[1], c.tenants[1], c.metrics
      log.info(#c.queue, c.groups[1].count, w.slots_free, w.resources_free.cpu, #w.current_jobs)
      log.info(t.usage.units, m.leased_units, m.free_units)
      if asked == 3 then return { action = "wait" } end
      return { action = "dispatch", job_id = c.queue[1].id, worker_id = "w-1" }
    end"""
    answer = ask(small(), look)
    assert [text for _, text in answer.logs[::2]] == ["6 6 2 3 0", "5 5 1 2 1", "4 4 0 1 2"]
    assert [text for _, text in answer.logs[1::2]] == ["nil 0 10", "1 1 9", "2 2 8"]


def test_after_the_cycle_the_view_is_as_the_engine_left_it() -> None:
    runtime = small()
    first = ask(runtime, TAKE_HEAD)
    second = ask(runtime, TAKE_HEAD)
    assert pairs_of(first) == pairs_of(second)
    shown = "#c.queue, c.groups[1].count, w.slots_free, #w.current_jobs, c.metrics.leased_units, c.tenants[1].share"
    assert evaluate(runtime, shown, "local w = c.workers[1]") == "6 6 2 0 0 0"


def test_a_batch_counts_as_its_actions() -> None:
    batch = """
    function schedule(c)
      if #c.queue < 6 then return { action = "wait" } end
      local a = { action = "dispatch", job_id = c.queue[1].id, worker_id = "w-1" }
      local b = { action = "dispatch", job_id = c.queue[2].id, worker_id = "w-2" }
      return { action = "batch", actions = { a, b } }
    end"""
    answer = ask(small(), batch)
    assert [a["action"] for a in answer.actions] == ["batch", "wait"]


def test_a_started_worker_is_seen_as_starting() -> None:
    source = """
    function schedule(c)
      for _, w in ipairs(c.workers) do
        if w.status == "starting" then return { action = "wait", reason = w.model_ref } end
      end
      return { action = "start_worker", start_worker = { model_ref = "llama", pool_id = "pool-2", gpu_id = 0 } }
    end"""
    runtime = runtime_with()
    answer = ask(runtime, source)
    assert [a["action"] for a in answer.actions] == ["start_worker", "wait"]
    assert evaluate(runtime, "#c.workers, #c.pools[2].workers, c.pools[2].gpus[1].vram_free") == f"3 1 {24 << 30}"


def test_an_evicted_worker_takes_nothing_new() -> None:
    source = """
    function schedule(c)
      if c.workers[3].status == "draining" then
        return { action = "wait", reason = tostring(c.helpers.find_worker("llama-70b")) }
      end
      return { action = "evict", evict_worker_id = "w-3" }
    end"""
    answer = ask(runtime_with(), source)
    assert answer.actions[-1]["reason"] == "nil"


def test_a_preempting_job_waits_out_of_sight_and_its_victims_are_stopping() -> None:
    source = """
    function schedule(c)
      local r = c.workers[2].current_jobs[1]
      if r.stopping then return { action = "wait", reason = tostring(#c.queue) } end
      return { action = "preempt", job_id = "job-2", victims = { r.id } }
    end"""
    answer = ask(runtime_with(), source)
    assert answer.actions[-1]["reason"] == "2"


def test_what_a_policy_keeps_in_locals_lasts_one_cycle() -> None:
    runtime = small()
    counting = "local n = 0 function schedule(c) n = n + 1 return { action = 'wait', reason = tostring(n) } end"
    assert ask(runtime, counting).actions == ask(runtime, counting).actions
    runtime.load(counting)
    assert {runtime.ask(QUESTION).actions[0]["reason"] for _ in range(5)} == {"1"}


def test_logs_metrics_and_steps_are_bounded_and_the_rest_is_counted() -> None:
    noisy = """
    function schedule(c)
      for i = 1, 100 do log.warn("line", i, {}, nil, true) metrics.emit("count", i) trace("step " .. i) end
      return { action = "wait" }
    end"""
    answer = ask(small(), noisy)
    assert (len(answer.logs), len(answer.metrics), len(answer.trace)) == (64, 64, 100)
    assert list(answer.logs[0]) == ["warn", "line 1 table nil true"]
    assert answer.metrics[1] == ("count", 2.0)
    assert answer.dropped == 72


@pytest.mark.parametrize("bad", ["'x', 0/0", "'x', 1/0", "'x', 'y'", "'bad name', 1", "nil, 1"])
def test_a_metric_has_a_name_and_a_finite_number(bad: str) -> None:
    assert evaluate(small(), f"pcall(metrics.emit, {bad})").startswith("false")


def test_the_same_seed_draws_the_same_numbers() -> None:
    draw = """
    function schedule(c) return { action = "wait", reason = math.random(1e9) .. " " .. math.random() } end"""
    runtime = small()
    once = ask(runtime, draw, seed=11)
    assert ask(runtime, draw, seed=11).actions == once.actions
    assert ask(runtime, draw, seed=12).actions != once.actions


def test_pairs_comes_in_the_order_of_keys() -> None:
    keys = """
      local t, s = { b = 1, a = 2, [10] = 3, [2] = 4, [1] = 5, [true] = 6, [1.5] = 7 }, {}
      for k in pairs(t) do s[#s + 1] = tostring(k) end"""
    assert evaluate(small(), "table.concat(s, ' ')", keys) == "1 1.5 2 10 a b true"
    walk = "local t, s, k = {c = 1, a = 2, b = 3}, {}, nil repeat k = next(t, k) s[#s + 1] = k until not k"
    assert evaluate(small(), "table.concat(s, ' ')", walk) == "a b c"


def test_an_error_carries_its_lua_traceback() -> None:
    answer = ask(small(), "local function inner() error('boo') end\nfunction schedule(c)\n  inner()\nend")
    assert answer.error is not None
    assert answer.error.kind == "error"
    assert answer.error.message == "policy:1: boo"
    assert "policy:3:" in answer.error.traceback
    assert "0x" not in answer.error.traceback


def test_the_examples_of_the_contract_run_as_they_stand() -> None:
    example = """
    function schedule(context)
      for _, job in ipairs(context.queue) do
        if job.seed ~= nil then
          local worker = context.helpers.find_worker(job.model_ref)
          if worker then return { action = "dispatch", job_id = job.id, worker_id = worker.id } end
        end
      end
      return platform.schedule(context)
    end"""
    answer = ask(runtime_with(), example)
    assert pairs_of(answer)[0] == ("job-1", "w-1")
    assert ("job-2", "w-3") in pairs_of(answer)


def test_the_same_state_and_seed_give_the_same_bytes_however_the_state_came_about() -> None:
    detour = [*state(), job(9, tenant="acme"), worker("w-9")]
    left, right = runtime_with(), runtime_with(*detour)
    right.apply([JobRemoved("job-9"), WorkerRemoved("w-9")])
    for runtime in (left, right):
        runtime.load("function schedule(c) return platform.schedule(c) end")
    answers = [msgspec.structs.replace(r.ask(Question(NOW, 3)), took_us=0) for r in (left, right)]
    assert msgspec.msgpack.encode(answers[0]) == msgspec.msgpack.encode(answers[1])
