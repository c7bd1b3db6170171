"""Every action and selection, run in LuaJIT."""

from __future__ import annotations

import json
from typing import Any

import pytest


def policy(*rules: dict[str, Any]) -> str:
    named = [{"name": f"r{index}", "condition": "always", **rule} for index, rule in enumerate(rules)]
    return json.dumps({"scheduler": {"name": "p", "rules": named}})


def dispatch(selection: str, match: str | None = None, **rule: Any) -> str:
    settings = {"worker_selection": selection} | ({"model_match": match} if match else {})
    return policy({"action": {"dispatch": settings}, **rule})


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("least-loaded", "idle"),
        ("most-vram-free", "roomy"),
        ("round-robin", "rested"),
        ("first", "roomy"),
        ("best-fit", "snug"),
        ("cache-affinity", "warm"),
    ],
)
def test_a_selection_picks_its_worker(run: Any, build: Any, selection: str, expected: str) -> None:
    loaded = ["a", "b"]
    near = build.pool(
        build.worker("roomy", vram_free=40, current_jobs=loaded, last_used_at=50),
        build.worker("snug", vram_free=10, current_jobs=loaded, last_used_at=40),
        build.worker("too-small", vram_free=9, last_used_at=60),
        build.worker("rested", vram_free=20, current_jobs=loaded, last_used_at=10),
    )
    caching = build.pool(
        build.worker("warm", vram_free=30, current_jobs=["a"], last_used_at=90), cached_models=["m"], id="p2"
    )
    idle = build.pool(build.worker("idle", vram_free=35, last_used_at=70), id="p3")
    job = build.job("j", model_ref="m", estimated_vram=10)
    answer = run(dispatch(selection, "ignored"), queue=[job], pools=[near, caching, idle])
    assert answer["worker_id"] == expected


def test_cache_affinity_prefers_the_loaded_model_to_the_cached_one(run: Any, build: Any) -> None:
    cached = build.pool(build.worker("cached"), cached_models=["m"])
    loaded = build.pool(build.worker("loaded", model_ref="m", current_jobs=["x"]), id="p2")
    answer = run(dispatch("cache-affinity", "ignored"), queue=[build.job("j", model_ref="m")], pools=[cached, loaded])
    assert answer["worker_id"] == "loaded"


@pytest.mark.parametrize(
    ("match", "models", "expected"),
    [
        ("required", ["x", "m"], "w1"),
        ("required", ["x", "y"], None),
        (None, ["x", "m"], "w1"),
        (None, ["x", "y"], None),
        ("preferred", ["x", "m"], "w1"),
        ("preferred", ["x", "y"], "w0"),
        ("ignored", ["x", "m"], "w0"),
    ],
)
def test_model_match_decides_who_may_serve(
    run: Any, build: Any, match: str | None, models: list[str], expected: str | None
) -> None:
    workers = [build.worker(f"w{n}", model_ref=model) for n, model in enumerate(models)]
    answer = run(dispatch("first", match), queue=[build.job("j", model_ref="m")], pools=[build.pool(*workers)])
    assert answer.get("worker_id") == expected


def test_an_alias_is_the_model_it_stands_for(run: Any, build: Any) -> None:
    pools = [build.pool(build.worker("x", model_ref="x"), build.worker("w", model_ref="m"))]
    answer = run(dispatch("first"), queue=[build.job("j", model_ref="alias-of-m")], pools=pools)
    assert answer["worker_id"] == "w"


def test_a_busy_worker_with_a_free_slot_takes_more(run: Any, build: Any) -> None:
    pools = [build.pool(build.worker("w", status="busy", slots_free=1, current_jobs=["x"]))]
    assert run(dispatch("first"), queue=[build.job("j")], pools=pools)["worker_id"] == "w"


def test_a_job_without_a_model_goes_to_any_worker(run: Any, build: Any) -> None:
    pools = [build.pool(build.worker("w", model_ref="m"))]
    assert run(dispatch("first"), queue=[build.job("j")], pools=pools)["worker_id"] == "w"


def test_only_ready_workers_with_a_free_slot_of_reachable_pools_are_chosen(run: Any, build: Any) -> None:
    workers = [
        build.worker("busy", status="busy", slots_free=0),
        build.worker("draining", status="draining"),
        build.worker("full", slots_free=0),
    ]
    gone = build.pool(build.worker("gone"), status="offline")
    queue = [build.job("j")]
    assert run(dispatch("first"), queue=queue, pools=[gone, build.pool(*workers)])["reason"] == "platform"


def test_jobs_over_quota_or_capacity_are_passed_over(run: Any, build: Any) -> None:
    queue = [
        build.job("greedy", tenant="over-quota"),
        build.job("huge", units=11),
        build.job("fits", units=10),
    ]
    answer = run(dispatch("first"), queue=queue, pools=[build.pool(build.worker("w"))], metrics={"free_units": 10})
    assert answer["job_id"] == "fits"


def test_worker_conditions_filter_workers_job_by_job(run: Any, build: Any) -> None:
    condition = {"any": [{"job.labels.zone": "any"}, {"worker.labels.zone": "b"}], "job.units": {"lte": 4}}
    source = dispatch("first", condition=condition)
    pools = [build.pool(build.worker("a", labels={"zone": "a"}), build.worker("b", labels={"zone": "b"}))]
    assert run(source, queue=[build.job("j")], pools=pools)["worker_id"] == "b"
    relaxed = build.job("j", labels={"zone": "any"})
    assert run(source, queue=[relaxed], pools=pools)["worker_id"] == "a"
    assert run(source, queue=[build.job("j", units=5)], pools=pools)["reason"] == "platform"


def test_wait_ends_the_cycle_with_its_duration(run: Any) -> None:
    answer = run(policy({"action": {"wait": {"duration_ms": 250}}}))
    expected = {"action": "wait", "retry_after_ms": 250, "reason": "rule r0", "rule": "r0"}
    assert answer == expected
    assert run(policy({"action": {"wait": {}}})) == {"action": "wait", "reason": "rule r0", "rule": "r0"}


def test_evict_picks_an_idle_worker(run: Any, build: Any) -> None:
    pools = [
        build.pool(
            build.worker("working", current_jobs=["x"], last_used_at=0, jobs_completed=0),
            build.worker("stale", last_used_at=5, jobs_completed=50),
            build.worker("rare", last_used_at=90, jobs_completed=1),
        )
    ]
    assert run(policy({"action": {"evict": {"select": "lru"}}}), pools=pools)["evict_worker_id"] == "stale"
    assert run(policy({"action": {"evict": {"select": "lfu"}}}), pools=pools)["evict_worker_id"] == "rare"
    assert run(policy({"action": {"evict": {"worker_id": "rare"}}}), pools=pools)["evict_worker_id"] == "rare"
    assert run(policy({"action": {"evict": {"worker_id": "working"}}}), pools=pools)["reason"] == "platform"
    recent = {"condition": {"worker.last_used_at": {"gt": 10}}, "action": {"evict": {"select": "lru"}}}
    assert run(policy(recent), pools=pools)["evict_worker_id"] == "rare"
    for_vram = {
        "condition": {"job.units": 1, "tenant.weight": {"exists": False}},
        "action": {"evict": {"select": "lru"}},
    }
    assert run(policy(for_vram), pools=pools, queue=[build.job("j")])["evict_worker_id"] == "stale"
    assert run(policy(for_vram), pools=pools)["reason"] == "platform"


def test_start_worker_takes_the_model_of_the_job_and_the_roomiest_gpu(run: Any, build: Any) -> None:
    gpus = [{"id": 0, "vram_free": 10}, {"id": 1, "vram_free": 20}]
    pools = [build.pool(build.worker("w", model_ref="served"), gpus=gpus)]
    queue = [build.job("a", model_ref="served"), build.job("b", model_ref="new", estimated_vram=15)]
    answer = run(policy({"action": {"start_worker": {}}}), queue=queue, pools=pools)
    assert answer["action"] == "start_worker"
    assert answer["start_worker"] == {"model_ref": "new", "pool_id": "pool-1", "gpu_id": 1}
    named = {"start_worker": {"model_ref": "x", "pool_id": "pool-1", "gpu_id": 0}}
    assert run(policy({"action": named}), pools=pools)["start_worker"]["gpu_id"] == 0
    for settings in ({"model_ref": "served"}, {"model_ref": "x", "pool_id": "nowhere"}):
        assert run(policy({"action": {"start_worker": settings}}), pools=pools)["reason"] == "platform"
    plain = [build.pool(id="cpu")]
    assert run(policy({"action": {"start_worker": {"model_ref": "x"}}}), pools=plain)["start_worker"] == {
        "model_ref": "x",
        "pool_id": "cpu",
    }


def test_preempt_stops_only_jobs_of_its_classes(run: Any, build: Any) -> None:
    rule = {"condition": {"job.class": "high"}, "action": {"preempt": {"classes": ["low", "background"]}}}
    queue = [build.job("n"), build.job("h", **{"class": "high"})]
    running = [{"id": "running-low", "class": "low"}]
    pools = [build.pool(build.worker("w", status="busy", slots_free=0, current_jobs=running))]
    answer = run(policy(rule), queue=queue, pools=pools)
    assert (answer["action"], answer["job_id"], answer["victims"]) == ("preempt", "h", ["running-low"])
    other = {"condition": "always", "action": {"preempt": {"classes": ["background"]}}}
    assert run(policy(other), queue=queue, pools=pools)["reason"] == "platform"
    assert run(policy(rule), queue=queue[:1], pools=pools)["reason"] == "platform"


def test_a_raw_card_sees_context_job_and_worker(run: Any, build: Any) -> None:
    body = 'if job.units > 2 then return { action = "wait", reason = job.id .. worker.id } end -- done'
    rule = {"condition": {"job.units": {"gt": 1}, "worker.id": "w"}, "action": {"lua": body}}
    pools = [build.pool(build.worker("v"), build.worker("w"))]
    queue = [build.job("a", units=2), build.job("b", units=3)]
    assert run(policy(rule), queue=queue, pools=pools) == {"action": "wait", "reason": "bw", "rule": "r0"}
    assert run(policy({"action": {"lua": "return nil"}}), queue=queue)["reason"] == "platform"


def test_a_whole_script_keeps_its_own_schedule(run: Any) -> None:
    script = 'local n = 0\nlocal function f(c) return c.metrics.x end\nfunction schedule(context)\n  return { action = "wait", reason = f(context) }\nend'  # noqa: E501
    rule = {"condition": {"metrics.queue_depth": {"gt": 0}}, "action": {"lua": {"script": script}}}
    answer = run(policy(rule), metrics={"queue_depth": 1, "x": "why"})
    assert answer == {"action": "wait", "reason": "why", "rule": "r0"}
    assert run(policy(rule), metrics={"queue_depth": 0})["reason"] == "platform"


def test_higher_priority_comes_first_and_ties_keep_the_order_of_the_file(run: Any) -> None:
    rules: list[Any] = [
        {"action": {"wait": {"duration_ms": 1}}, "priority": -1},
        {"action": {"wait": {"duration_ms": 2}}},
        {"action": {"wait": {"duration_ms": 3}}},
        {"action": {"wait": {"duration_ms": 4}}, "priority": 5, "enabled": False},
    ]
    assert run(policy(*rules))["rule"] == "r1"
