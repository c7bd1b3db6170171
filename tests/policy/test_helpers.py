"""Every helper of the contract, in the small world."""

from __future__ import annotations

import re

import pytest

from headgate.policy.deltas import JobAdded, MetricsSet
from headgate.policy.runtime import Runtime, platform_source
from tests.policy.world import GB, NOW, evaluate, job, running, runtime_with, state, worker


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return runtime_with()


CALLS = {
    "h.find_worker('llama').id": "w-1",
    "h.find_worker('llama-7b', 'pool-2')": "nil",
    "h.find_worker('no-such-model')": "nil",
    "h.find_worker().id": "w-1",
    "h.find_worker(c.queue[2]).id": "w-1",
    "h.find_worker_least_loaded('llama').id": "w-1",
    "h.find_worker_most_vram_free('llama').id": "w-1",
    "h.find_worker_round_robin('llama').id": "w-1",
    "h.find_worker_round_robin('llama-7b', c.pools[1]).id": "w-1",
    "#h.find_workers('llama')": "2",
    "h.find_workers('llama')[2].id": "w-2",
    "#h.find_workers('llama', 'pool-2')": "0",
    "#h.find_workers()": "3",
    "#h.filter_workers(function(w) return w.slots == 2 end)": "2",
    "h.get_job('job-1').name": "first",
    "h.get_job('nope')": "nil",
    "#h.filter_jobs(function(j) return j.tenant == 'acme' end)": "2",
    "h.filter_jobs(function() return true end, 1)[1].id": "job-2",
    "#h.filter_jobs(function() return true end, 0)": "0",
    "h.calculate_wait_time('job-1')": "8000",
    "h.calculate_wait_time(c.queue[2])": "8000",
    "h.calculate_wait_time('nope')": "nil",
    "h.estimate_duration('job-1')": "3000",
    "h.estimate_duration('job-2')": "nil",
    "h.can_fit('job-1', 'w-1')": "true nil",
    "h.can_fit(c.queue[2], c.workers[1])": "true nil",
    "h.can_fit('job-1', 'w-3')": "false not enough cpu",
    "h.can_fit('nope', 'w-1')": "false job is not in the queue",
    "h.can_fit('job-1', 'nope')": "false no such worker",
    "h.get_pool('pool-2').id": "pool-2",
    "h.get_pool('nope')": "nil",
    f"#h.find_pools_with_capacity({20 * GB})": "2",
    f"#h.find_pools_with_capacity({30 * GB})": "0",
    "#h.find_pools_with_capacity()": "2",
    "h.pool_utilization('pool-1')": "0.25",
    "h.pool_utilization(c.pools[2])": "0",
    "h.pool_utilization('nope')": "nil",
    f"#h.find_gpus_with_vram({4 * GB})": "3",
    f"h.find_gpus_with_vram({4 * GB})[3].id": "1",
    f"h.find_gpus_with_vram({GB}, 'pool-2')[1].pool_id": "pool-2",
    "h.resolve_model('llama')": "llama-7b",
    "h.resolve_model('other')": "other",
    "h.get_model('llama').ref": "llama-7b",
    "h.get_model('other')": "nil",
    "h.check_quota('job-1')": "true nil",
    "h.check_quota(c.queue[2])": "true nil",
    f"h.check_quota('acme', {17 * GB})": "false quota for vram is used up",
    f"h.check_quota('acme', {16 * GB})": "true nil",
    "h.check_quota('acme', {units = 41})": "false quota for units is used up",
    "h.check_quota('acme', {units = 40})": "true nil",
    "h.check_quota('zeta', 1e15)": "true nil",
    "h.check_quota('nobody', 1)": "true nil",
    "h.tenant_usage('acme').units": "10",
    "h.tenant_usage('nobody')": "nil",
    "h.find_worker_to_evict_lru().id": "w-1",
    "h.find_worker_to_evict_lru('pool-2').id": "w-3",
    f"h.find_worker_to_evict_lru(nil, {20 * GB}).id": "w-3",
    "h.find_worker_to_evict_lfu().id": "w-1",
    "h.should_evict('w-3')": "false queued jobs want its model",
    "h.should_evict('w-2')": "false worker is not idle",
    "h.should_evict('nope')": "false no such worker",
    "h.find_victims('job-1')": "nil jobs of class normal do not preempt",
    "h.find_victims('job-2')": "nil it fits without stopping anything",
    "h.find_victims('nope')": "nil job is not in the queue",
    "h.timeline().earliest('job-1') == c.now": "true",
    "h.timeline().reserve('nope')": "nil",
    "h.average({1, 2, 6})": "3",
    "h.average(c.queue, 'units') * 3": "4",
    "h.average({})": "nil",
    "h.starts_with('headgate', 'head')": "true",
    "h.starts_with('headgate', 'gate')": "false",
    "h.starts_with(nil, 'x')": "false",
    "h.contains('head.gate', '.g')": "true",
    "h.contains('headgate', '.')": "false",
    "h.contains({1, 2}, 2)": "true",
    "h.contains(c.pools[1].cached_models, 'llama-7b')": "true",
    "h.contains(nil, 2)": "false",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_helper_answers(runtime: Runtime, call: str) -> None:
    assert evaluate(runtime, call) == CALLS[call]


def test_every_helper_is_tested_and_in_the_manual(runtime: Runtime) -> None:
    walk = "local names = {} for n in pairs(h) do names[#names + 1] = n end"
    names = evaluate(runtime, "table.concat(names, ' ')", walk).split()
    assert len(names) == 27
    manual = platform_source().split("local BACKFILL_DEPTH")[0]
    for name in names:
        assert any(f"h.{name}(" in call for call in CALLS), name
        assert re.search(rf"\b{name}\(", manual), name


ODD_VALUES = """
nil true 0 -1 0/0 1e300 '' 'x' {} {1} c c.queue c.queue[1] c.pools[1] c.workers[1] c.tenants[1] c.helpers function()end
"""


def test_odd_arguments_give_nothing_or_an_error_that_names_the_call(runtime: Runtime) -> None:
    values = ", ".join(f"function() return {value.replace('()', '() ')} end" for value in ODD_VALUES.split())
    calls = f"""
      local odd, said = {{ {values} }}, {{}}
      for name, helper in pairs(h) do
        for i = 1, #odd do
          for k = 1, #odd do
            local ok, message = pcall(helper, odd[i](), odd[k]())
            local call = name:gsub("_l.u$", "")
            if not ok and not message:find("^policy:%d+: " .. call .. ":") then said[#said + 1] = message end
          end
        end
      end"""
    assert evaluate(runtime, "#said, said[1]", calls) == "0 nil"


@pytest.mark.parametrize(
    ("by_id", "by_view"),
    [
        ("h.find_gpus_with_vram(0, 'pool-2')", "h.find_gpus_with_vram(nil, c.pools[2])"),
        ("h.find_worker_to_evict_lru('pool-2')", "h.find_worker_to_evict_lru(c.pools[2])"),
        ("h.find_worker_to_evict_lfu('pool-1')", "h.find_worker_to_evict_lfu(c.pools[1])"),
        ("h.find_worker('llama', 'pool-1')", "h.find_worker('llama', c.pools[1])"),
        ("h.find_workers(nil, 'pool-2')", "h.find_workers(nil, c.pools[2])"),
        ("h.pool_utilization('pool-1')", "h.pool_utilization(c.pools[1])"),
        ("h.tenant_usage('acme')", "h.tenant_usage(c.tenants[1])"),
        ("h.should_evict('w-2')", "h.should_evict(c.workers[2])"),
    ],
)
def test_an_id_and_the_view_that_bears_it_mean_the_same(runtime: Runtime, by_id: str, by_view: str) -> None:
    assert evaluate(runtime, by_view) == evaluate(runtime, by_id) != "nil"


def test_a_job_that_lacks_room_is_told_what_is_missing() -> None:
    deltas = [d for d in state() if not isinstance(d, JobAdded)]
    runtime = runtime_with(
        *deltas,
        job(1, resources={"cpu": 4}),
        job(2, units=91),
        job(3, resources={"slots": 2}),
        worker("w-4", model_ref=None, vram_free=GB),
        worker("w-5", status="draining"),
        job(4, estimated_vram=2 * GB),
    )
    assert evaluate(runtime, "h.can_fit('job-1', 'w-2')") == "false not enough cpu"
    assert evaluate(runtime, "h.can_fit('job-2', 'w-1')") == "false not enough units"
    assert evaluate(runtime, "h.can_fit('job-3', 'w-2')") == "false not enough slots"
    assert evaluate(runtime, "h.can_fit('job-4', 'w-4')") == "false not enough vram"
    assert evaluate(runtime, "h.can_fit('job-4', 'w-5')") == "false worker is draining"


def test_victims_are_the_lowest_class_then_the_least_work_lost_and_no_more_than_needed() -> None:
    runtime = runtime_with(
        MetricsSet({"usable_units": 100, "leased_units": 4}),
        worker(
            "w-1",
            status="busy",
            slots=4,
            slots_free=0,
            resources_free={"cpu": 0},
            current_jobs=[
                running("normal", 1, resources={"cpu": 8}),
                running("low", 2, resources={"cpu": 2}, started_at=NOW - 10),
                running("old", 3, resources={"cpu": 2}, started_at=NOW - 900),
                running("young", 3, resources={"cpu": 2}, started_at=NOW - 100),
                running("stopping", 3, resources={"cpu": 9}, stopping=True),
            ],
        ),
        job(1, 0, resources={"cpu": 2}),
        job(2, 0, resources={"cpu": 4}),
        job(3, 0, resources={"cpu": 7}),
        job(4, 0, resources={"cpu": 6}),
    )
    assert evaluate(runtime, "h.find_victims('job-1')", "").startswith("{1=young}")
    assert evaluate(runtime, "h.find_victims('job-2')").startswith("{1=young,2=old}")
    assert evaluate(runtime, "h.find_victims('job-3')") == "nil stopping lower jobs would not make room"
    assert evaluate(runtime, "h.find_victims('job-4')").startswith("{1=young,2=old,3=low}")


def test_a_job_that_checkpoints_loses_nothing_and_goes_first() -> None:
    runtime = runtime_with(
        worker(
            "w-1",
            status="busy",
            slots=2,
            slots_free=0,
            current_jobs=[
                running("young", 3, started_at=NOW - 1),
                running("saved", 3, started_at=0, checkpointable=True),
            ],
        ),
        job(1, 0),
    )
    assert evaluate(runtime, "h.find_victims('job-1')").startswith("{1=saved}")


def test_handlers_pool_and_labels_bound_where_a_job_may_run() -> None:
    runtime = runtime_with(
        worker("w-1", types=["encode"], labels={"zone": "a"}),
        worker("w-2", pool_id="pool-2"),
        job(1, type="render"),
        job(2, pool="pool-1"),
        job(3, requires={"zone": "a", "disk": "fast"}),
        job(4, type="encode", pool="pool-1", requires={"zone": "a"}),
    )
    assert evaluate(runtime, "h.can_fit('job-1', 'w-1')") == "false worker has no handler for render"
    assert evaluate(runtime, "h.can_fit('job-2', 'w-2')") == "false job wants pool pool-1"
    assert evaluate(runtime, "h.can_fit('job-3', 'w-1')") == "false job requires label disk=fast"
    assert evaluate(runtime, "h.can_fit('job-4', 'w-1')") == "true nil"
    assert evaluate(runtime, "h.find_worker(h.get_job('job-1')).id, #c.groups") == "w-2 4"
    assert (
        evaluate(runtime, "c.queue[3].requires, c.queue[2].pool, c.workers[1].types")
        == "{disk=fast,zone=a} pool-1 {1=encode}"
    )


def test_a_model_is_looked_for_where_it_is_loaded_then_where_none_is() -> None:
    loaded, plain, other = worker("w-3", model_ref="llama"), worker("w-2"), worker("w-1", model_ref="mistral")
    jobs = [job(1, model_ref="llama"), job(2)]
    runtime = runtime_with(loaded, plain, other, *jobs)
    assert evaluate(runtime, "h.find_worker('llama').id, h.find_worker(c.queue[1]).id") == "w-3 w-3"
    assert (
        evaluate(runtime, "h.find_worker('qwen').id, h.find_worker(c.queue[2]).id, h.find_worker().id") == "w-2 w-2 w-1"
    )
    assert evaluate(runtime, "#h.find_workers('llama'), #h.find_workers()") == "2 3"
