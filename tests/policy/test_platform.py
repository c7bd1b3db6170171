"""The platform policy, rule by rule, in its own words: build jobs and workers, say who gets what."""

from __future__ import annotations

from headgate.policy.deltas import ConfigSet, Delta, Gpu, MetricsSet, ModelSet, PoolSet, TenantSet
from headgate.policy.runtime import PLATFORM, platform_source, platform_version
from tests.policy.world import GB, NOW, QUESTION, evaluate, job, running, runtime_with, worker

UNITS = MetricsSet({"usable_units": 100, "leased_units": 0})


def decide(*deltas: Delta) -> list[dict[str, object]]:
    answer = runtime_with(*deltas).ask(QUESTION, PLATFORM)
    assert answer.error is None, answer.error
    return answer.actions


def dispatched(*deltas: Delta) -> list[tuple[object, object]]:
    return [(a["job_id"], a.get("worker_id")) for a in decide(*deltas) if a["action"] == "dispatch"]


def test_an_empty_queue_waits() -> None:
    assert decide(worker("w-1")) == [{"action": "wait", "reason": "the queue is empty"}]


def test_high_goes_before_batch_and_rank_before_submission() -> None:
    jobs = [job(1, 2), job(2, 0), job(3, 1), job(4, 1, rank=5)]
    assert [j for j, _ in dispatched(worker("w-1", slots=4, slots_free=4), *jobs)] == [
        "job-2",
        "job-4",
        "job-3",
        "job-1",
    ]


def test_work_goes_to_the_least_loaded_worker() -> None:
    workers = [
        worker("w-1", slots=4, slots_free=1, current_jobs=[running("r")] * 3),
        worker("w-2", slots=4, slots_free=3),
    ]
    assert dispatched(*workers, job(1)) == [("job-1", "w-2")]


def test_a_model_has_to_match_also_by_its_alias() -> None:
    workers = [worker("w-1", model_ref="other"), worker("w-2", model_ref="llama-7b")]
    assert dispatched(ModelSet("llama-7b", aliases=["llama"]), *workers, job(1, model_ref="llama")) == [
        ("job-1", "w-2")
    ]


def test_a_worker_with_a_model_is_left_to_those_who_want_it() -> None:
    assert dispatched(worker("w-1", model_ref="llama"), job(1)) == []
    assert dispatched(worker("w-1"), job(1, model_ref="llama")) == [("job-1", "w-1")]


def test_a_job_goes_where_its_handler_its_pool_and_its_labels_are() -> None:
    workers = [worker("w-1", types=["encode"]), worker("w-2", labels={"zone": "b"}, slots=2, slots_free=2)]
    jobs = [job(1, type="render"), job(2, type="encode", requires={"zone": "b"}), job(3, type="encode")]
    assert dispatched(*workers, *jobs) == [("job-1", "w-2"), ("job-2", "w-2"), ("job-3", "w-1")]


def test_an_external_job_takes_units_but_no_worker() -> None:
    actions = decide(
        MetricsSet({"usable_units": 5, "leased_units": 0}),
        job(1, external=True, units=3),
        job(2, external=True, units=3),
    )
    assert actions[0] == {"action": "dispatch", "job_id": "job-1"}
    assert actions[1]["action"] == "wait"


def test_quotas_are_hard_within_a_cycle_too() -> None:
    tenants = [TenantSet("acme", quotas={"units": 3}, usage={"units": 1}), TenantSet("zeta")]
    jobs = [job(n, tenant="acme", units=2) for n in (1, 2)] + [job(3, tenant="zeta", units=2)]
    found = dispatched(UNITS, *tenants, worker("w-1", slots=4, slots_free=4), *jobs)
    assert [j for j, _ in found] == ["job-1", "job-3"]


def test_tenants_take_turns_by_their_weighted_share() -> None:
    tenants = [TenantSet("big", weight=2, share=0), TenantSet("small", weight=1, share=0)]
    jobs = [job(n, tenant="big") for n in range(1, 7)] + [job(n, tenant="small") for n in range(7, 13)]
    found = dispatched(UNITS, *tenants, worker("w-1", slots=6, slots_free=6), *jobs)
    owners = ["big" if int(str(j).split("-")[1]) < 7 else "small" for j, _ in found]
    assert (owners.count("big"), owners.count("small")) == (4, 2)


def test_shares_never_reach_across_classes() -> None:
    tenants = [TenantSet("served", share=9), TenantSet("hungry", share=0)]
    jobs = [job(1, 1, tenant="hungry"), job(2, 0, tenant="served")]
    assert dispatched(*tenants, worker("w-1"), *jobs) == [("job-2", "w-1")]


def busy_with(*ends: int, free: float = 0) -> Delta:
    jobs = [running(f"r-{n}", 1, resources={"cpu": 4}, ends_at=end) for n, end in enumerate(ends)]
    slots_free = 8 - len(jobs)
    return worker("w-1", slots=8, slots_free=slots_free, resources_free={"cpu": free}, current_jobs=jobs)


def test_a_short_job_may_jump_ahead_if_it_ends_before_the_reserved_start() -> None:
    wide = job(1, resources={"cpu": 8})
    short = job(2, resources={"cpu": 2}, estimated_duration_ms=900)
    long = job(3, resources={"cpu": 3}, estimated_duration_ms=1_100)
    assert dispatched(busy_with(NOW + 1_000, free=4), wide, short, long) == [("job-2", "w-1")]


def test_a_job_of_unknown_length_delays_nobody_only_beside_the_reserved_place() -> None:
    wide = job(1, resources={"cpu": 6})
    beside = job(2, resources={"cpu": 2})
    too_much = job(3, resources={"cpu": 3})
    assert dispatched(busy_with(NOW + 1_000, free=4), wide, too_much, beside) == [("job-2", "w-1")]


def test_a_short_job_deeper_in_its_group_is_found() -> None:
    wide = job(1, resources={"cpu": 8})
    others = [job(n, resources={"cpu": 3}, estimated_duration_ms=5_000 if n < 6 else 500) for n in range(2, 8)]
    assert dispatched(busy_with(NOW + 1_000, free=4), wide, *others) == [("job-6", "w-1")]


def test_where_nobody_knows_an_end_nothing_jumps_ahead() -> None:
    jobs = running("r", 1, resources={"cpu": 4})
    holder = worker("w-1", slots=8, slots_free=7, resources_free={"cpu": 4}, current_jobs=[jobs])
    assert dispatched(holder, job(1, resources={"cpu": 8}), job(2, resources={"cpu": 1}, estimated_duration_ms=1)) == []


def test_a_job_that_can_never_run_holds_nobody_up() -> None:
    assert dispatched(busy_with(NOW + 10, free=4), job(1, resources={"cpu": 99}), job(2)) == [("job-2", "w-1")]
    assert dispatched(UNITS, worker("w-1"), job(1, units=101), job(2)) == [("job-2", "w-1")]


def test_units_are_reserved_too() -> None:
    metrics = MetricsSet({"usable_units": 10, "leased_units": 6})
    holder = worker("w-1", slots=9, slots_free=8, current_jobs=[running("r", 1, units=6, ends_at=NOW + 1_000)])
    wide = job(1, units=8)
    short = job(2, units=3, estimated_duration_ms=900)
    long = job(3, units=3, estimated_duration_ms=2_000)
    beside = job(4, units=1)
    assert dispatched(metrics, holder, wide, long, short, beside) == [("job-2", "w-1"), ("job-4", "w-1")]


def test_a_high_job_that_fits_nowhere_preempts_lower_ones() -> None:
    full = worker("w-1", status="busy", slots_free=0, current_jobs=[running("r-1", 3)])
    actions = decide(full, job(1, 0))
    assert (actions[0]["action"], actions[0]["victims"]) == ("preempt", ["r-1"])
    assert decide(ConfigSet({"preemption": False}), full, job(1, 0))[0]["action"] == "wait"
    assert decide(full, job(1, 1))[0]["action"] == "wait"


def test_a_worker_is_started_for_a_model_that_is_wanted() -> None:
    pools = [
        PoolSet("p-1", "online", 0, [Gpu(0, "L4", 24 * GB, 0, 24 * GB)]),
        PoolSet("p-2", "online", 0, [Gpu(3, "L4", 24 * GB, 4 * GB, 20 * GB)], ["llama"]),
    ]
    actions = decide(ModelSet("llama", 8 * GB), *pools, job(1, model_ref="llama"))
    assert [a["action"] for a in actions] == ["start_worker", "wait"]
    assert actions[0]["start_worker"] == {"model_ref": "llama", "pool_id": "p-2", "gpu_id": 3}


def test_the_least_recently_used_idle_worker_nobody_wants_makes_way() -> None:
    pool = PoolSet("p-1", "online", 0, [Gpu(0, "L4", 24 * GB, 24 * GB, 0)])
    models = [ModelSet("new", 8 * GB), ModelSet("old", 8 * GB), ModelSet("wanted", 8 * GB)]
    workers = [
        worker("w-1", pool_id="p-1", model_ref="old", last_used_at=20),
        worker("w-2", pool_id="p-1", model_ref="old", last_used_at=10),
        worker(
            "w-3",
            pool_id="p-1",
            status="busy",
            slots_free=0,
            model_ref="wanted",
            current_jobs=[running("r", 1)],
            last_used_at=1,
        ),
    ]
    jobs = [job(1, model_ref="new"), job(2, model_ref="wanted")]
    assert decide(pool, *models, *workers, *jobs)[0] == {
        "action": "evict",
        "evict_worker_id": "w-2",
        "reason": "least recently used, and new is wanted",
    }


def test_the_source_is_at_hand_has_a_version_and_runs_as_a_policy_of_its_own() -> None:
    assert platform_version().count(".") == 2
    runtime = runtime_with()
    assert evaluate(runtime, "#platform.get_source()") == str(len(platform_source()))
    runtime.load(platform_source())
    assert runtime.ask(QUESTION).actions == runtime.ask(QUESTION, PLATFORM).actions
