"""The world: determinism, troubles, models, tenants, load, and memory that stays flat."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.cluster import ModelSpec, WorkerSpec
from headgate.core.job import BACKGROUND, HIGH, Retry
from headgate.core.ordering import FirstFit
from headgate.core.tenants import TenantSpec
from headgate.core.verify import verify
from headgate.sim import (
    Cluster,
    Delays,
    Faults,
    Outage,
    Shape,
    SimJob,
    World,
    generate,
    gpu_pool,
    machine,
    run,
    sim_settings,
    workers,
)
from headgate.sim.native import StrictFcfs
from headgate.sim.records import JobRecord
from headgate.sim.results import Results
from tests.sim.data import sim_job, workload

TROUBLED = Faults(job_failure=0.2, worker_mtbf=3_600_000, worker_repair=600_000)


def troubled() -> Cluster:
    specs = tuple(WorkerSpec(f"w{n}", slots=4) for n in range(4))
    return Cluster(sim_settings(total_units=16), specs, faults=TROUBLED)


def by_id(results: Results) -> dict[str, JobRecord]:
    return {record.id: record for record in results.records}


# -- determinism ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["platform", "native:first-fit", "easy-backfill"])
def test_two_runs_with_the_same_seed_are_byte_identical(policy: str) -> None:
    given_jobs = generate("bursty", 3, Shape(jobs=80, processors=16, load=0.9, tenants=3))
    first, second = (run(given_jobs, policy, troubled(), seed=7).deterministic() for _ in range(2))
    assert first == second
    assert run(given_jobs, policy, troubled(), seed=8).deterministic() != first


def test_a_job_meets_the_same_fate_under_any_policy() -> None:
    given_jobs = generate("poisson", 1, Shape(jobs=80, processors=16))
    cluster = Cluster(sim_settings(total_units=16), (WorkerSpec("w", slots=16),), faults=Faults(job_failure=0.3))
    one, other = (by_id(run(given_jobs, policy, cluster, seed=1)) for policy in ("native:fcfs", "easy-sjbf"))
    assert {name: (job.state, job.run) for name, job in one.items()} == {
        name: (job.state, job.run) for name, job in other.items()
    }
    assert {job.state for job in one.values()} == {"completed", "failed"}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(["native:first-fit", "native:fcfs"]), faults=st.booleans())
def test_every_job_ends_once_and_the_state_stays_sound(seed: int, policy: str, faults: bool) -> None:
    chance = random.Random(seed)
    jobs = [
        sim_job(
            f"j{n}", chance.randrange(60_000), chance.randrange(1, 90_000), chance.randrange(1, 9),
            priority=chance.choice(["high", "normal", "low"]), tenant=chance.choice("ab"), retry=Retry(attempts=2),
        )
        for n in range(40)
    ]  # fmt: skip
    trouble = Faults(job_failure=0.3, worker_mtbf=200_000, worker_repair=20_000) if faults else Faults()
    cluster = Cluster(
        sim_settings(total_units=16),
        tuple(WorkerSpec(f"w{n}", slots=3) for n in range(3)),
        faults=trouble,
    )
    ended: list[JobRecord] = []
    given_policy = FirstFit() if policy == "native:first-fit" else StrictFcfs()
    world = World(cluster, sorted(jobs, key=lambda job: job.at), given_policy, seed=seed, on_job=ended.append)
    counts = world.run()
    verify(world.state)
    assert counts.stuck == 0
    assert sorted(record.id for record in ended) == sorted(job.id for job in jobs)
    assert not world.state.leases
    assert all(record.started is None or record.submitted <= record.started <= record.ended for record in ended)


# -- time and size -------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_jobs_that_ended() -> None:
    def endless(count: int) -> Iterator[SimJob]:
        kind = sim_job("x", 0, 900).spec.kind
        for n in range(count):
            yield SimJob(f"j{n}", n * 1_000, 900, msgspec.structs.replace(sim_job("x", 0, 900).spec, kind=kind))

    def most(count: int) -> int:
        gc.collect()
        tracemalloc.start()
        counts = World(machine(4), endless(count), StrictFcfs(), linked=False).run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert counts.grants == count
        return peak

    most(600)
    assert most(3_000) < 1.2 * most(1_000)


def test_jobs_that_take_no_time_end_at_the_instant_they_start() -> None:
    results = run(workload(sim_job("a", 5, 0), sim_job("b", 5, 0), processors=1), "fcfs")
    assert [(record.started, record.ended) for record in results.records] == [(5, 5), (5, 5)]


def test_what_can_never_start_is_told_and_does_not_hang_the_run() -> None:
    results = run(workload(sim_job("giant", 0, 10, units=11), sim_job("a", 1, 10), processors=10), "native:first-fit")
    assert results.counts.stuck == 1
    assert results.by_state == {"completed": 1}


def test_a_policy_that_waits_for_ever_does_not_hang_the_run(tmp_path: Any) -> None:
    path = tmp_path / "lazy.lua"
    path.write_text('function schedule(context) return { action = "wait", retry_after_ms = 1000 } end')
    results = run(workload(sim_job("a", 0, 10), processors=1), path)
    assert results.counts.stuck == 1


def test_a_policy_that_asks_to_be_asked_again_is_asked_again(tmp_path: Any) -> None:
    path = tmp_path / "later.lua"
    path.write_text("""
function schedule(context)
  local job = context.queue[1]
  if not job or job.wait_ms < 3000 then return { action = "wait", retry_after_ms = 3000 } end
  return { action = "dispatch", job_id = job.id, worker_id = "machine" }
end""")
    assert by_id(run(workload(sim_job("a", 0, 10), processors=1), path))["a"].started == 3_000


def test_a_policy_that_waits_is_not_asked_more_often_because_it_was_asked_before(tmp_path: Any) -> None:
    path = tmp_path / "waits.lua"
    path.write_text("""
function schedule(context)
  if context.queue[1].wait_ms < 3000000 then return { action = "wait", retry_after_ms = 60000 } end
  return platform.schedule(context)
end""")
    jobs = [sim_job(f"j{n}", n * 61_000, 10) for n in range(50)]
    results = run(workload(*jobs, processors=50), path)
    assert results.by_state == {"completed": 50}
    assert results.counts.cycles < 300, "one for each arrival, each end, each minute"


def test_a_load_curve_begins_with_its_last_step_before_the_first_job() -> None:
    steps = ((0, 10.0), (60_000, 0.0))
    cluster = Cluster(sim_settings(total_units=10), (WorkerSpec("w", slots=10),), load=steps)
    assert by_id(run(workload(sim_job("a", 3_600_000, 10)), "native:first-fit", cluster))["a"].started == 3_600_000


def test_a_foreign_policy_that_fails_is_replaced_by_the_platform_policy_and_counted(tmp_path: Any) -> None:
    path = tmp_path / "broken.lua"
    path.write_text("function schedule(context) error('no') end")
    results = run(workload(sim_job("a", 0, 10), processors=1), path)
    assert results.by_state == {"completed": 1}
    assert results.counts.policy_failures == {"error": 1}


# -- troubles ------------------------------------------------------------------------------------------------------


def test_what_a_dead_worker_ran_is_run_again_elsewhere_after_its_leases_would_have_expired() -> None:
    job = sim_job("a", 0, 100_000, retry=Retry(attempts=2, initial=0, jitter=0))
    cluster = Cluster(
        sim_settings(), (WorkerSpec("w0"), WorkerSpec("w1")), faults=Faults(outages=(Outage("w0", 40_000, 10**9),))
    )
    results = run(workload(job), "native:first-fit", cluster)
    record = by_id(results)["a"]
    assert (record.state, record.worker, record.attempts) == ("completed", "w1", 2)
    assert record.ended == 40_000 + Delays().detect + 100_000
    assert results.counts.worker_failures == 1


def test_a_worker_that_comes_back_works_again() -> None:
    jobs = [sim_job("a", 0, 10_000), sim_job("b", 50_000, 10_000)]
    cluster = Cluster(sim_settings(), (WorkerSpec("w0"),), faults=Faults(outages=(Outage("w0", 5_000, 100_000),)))
    results = by_id(run(workload(*jobs), "native:first-fit", cluster))
    assert results["a"].state == "expired"
    assert results["b"].started == 105_000


def test_attempts_that_are_to_fail_fail_and_the_next_one_succeeds() -> None:
    job = msgspec.structs.replace(
        sim_job("a", 0, 1_000, retry=Retry(attempts=3, initial=500, factor=1, jitter=0)), fails=2
    )
    record = by_id(run(workload(job, processors=1), "fcfs"))["a"]
    assert (record.state, record.attempts, record.run, record.ended) == ("completed", 3, 3_000, 4_000)


def test_a_high_job_makes_a_background_job_let_go_and_a_checkpoint_keeps_its_work() -> None:
    low = sim_job("low", 0, 60_000, 10, priority="background", checkpointable=True)
    lost = sim_job("lost", 0, 60_000, 10, priority="background")
    urgent = sim_job("urgent", 20_000, 5_000, 10, priority="high")
    cluster = Cluster(sim_settings(total_units=10), (WorkerSpec("w", slots=4),), delays=Delays(let_go=2_000))
    for job, end in ((low, 65_000), (lost, 87_000)):
        results = run(workload(job, urgent), "native:first-fit", cluster)
        assert results.counts.preemptions == 1
        assert by_id(results)["urgent"].started == 22_000
        record = by_id(results)[job.id]
        assert (record.preemptions, record.ended) == (1, end)
        assert {HIGH, BACKGROUND} == {record.job_class for record in results.records}


# -- the cluster ---------------------------------------------------------------------------------------------------


def test_workers_for_models_are_loaded_when_wanted_and_evicted_when_others_are() -> None:
    jobs = [
        sim_job(f"{model}{n}", at, 5_000, model_ref=model) for model, at in (("x", 0), ("y", 100_000)) for n in (1, 2)
    ]
    cluster = Cluster(
        sim_settings(), pools=(gpu_pool("p", 1, 10),), models=(ModelSpec("x", 8), ModelSpec("y", 8)), model_slots=1
    )
    results = run(workload(*jobs), "platform", cluster)
    assert results.by_state == {"completed": 4}
    assert (results.counts.model_loads, results.counts.evictions) == (2, 1)
    assert by_id(results)["x1"].started == Delays().load_model
    assert by_id(results)["y1"].started == 100_000 + Delays().unload + Delays().load_model


def test_a_busy_machine_starts_less() -> None:
    jobs = [sim_job(f"j{n}", 0, 10_000) for n in range(20)]
    quiet = Cluster(sim_settings(total_units=10), (WorkerSpec("w", slots=20),))
    busy = msgspec.structs.replace(quiet, load=((0, 5.0),))
    shut = msgspec.structs.replace(quiet, load=((0, 10.0), (60_000, 0.0)))
    ends = [run(workload(*jobs), "native:first-fit", cluster).makespan for cluster in (quiet, busy, shut)]
    assert ends[:2] == [20, 40]
    assert ends[2] > 60


def test_quotas_of_tenants_bind_and_fairness_is_told_per_tenant() -> None:
    jobs = [sim_job(f"{tenant}{n}", 0, 10_000, tenant=tenant) for tenant in "ab" for n in range(4)]
    cluster = Cluster(
        sim_settings(total_units=8), (WorkerSpec("w", slots=8),), tenants=(TenantSpec("a", max_leases=1),)
    )
    results = run(workload(*jobs), "native:first-fit", cluster)
    assert results.tenants["a"].mean_wait == 15
    assert results.tenants["b"].mean_wait == 0
    assert results.fairness < 1


def test_deadlines_that_pass_are_counted() -> None:
    late = sim_job("late", 0, 10_000)
    late = msgspec.structs.replace(late, spec=msgspec.structs.replace(late.spec, deadline=5_000))
    waiting = msgspec.structs.replace(late, id="waiting", spec=msgspec.structs.replace(late.spec, name="waiting"))
    results = run(workload(late, waiting, processors=1), "fcfs")
    assert by_id(results)["waiting"].state == "expired"
    assert by_id(results)["waiting"].ended == 5_000
    assert results.deadline_misses == 2


def test_ageing_lifts_a_job_that_waited_too_long() -> None:
    jobs = [sim_job("low", 1, 1_000, priority="low")]
    jobs += [sim_job(f"n{n:03}", n * 1_000, 1_000) for n in range(100)]
    given_jobs = workload(*sorted(jobs, key=lambda job: job.at))
    plain, aged = (
        by_id(run(given_jobs, "native:first-fit", Cluster(sim_settings(total_units=1, ageing=age), (WorkerSpec("w"),))))
        for age in (0, 20_000)
    )
    assert (plain["low"].started or 0) >= 100_000
    assert (aged["low"].started or 0) < 50_000


def test_a_dependency_that_fails_takes_its_dependents_with_it() -> None:
    first = msgspec.structs.replace(sim_job("first", 0, 1_000), fails=1)
    second = sim_job("second", 0, 1_000)
    second = msgspec.structs.replace(second, spec=msgspec.structs.replace(second.spec, dependencies=("first",)))
    assert run(workload(first, second, processors=2), "fcfs").by_state == {"failed": 2}


def test_a_dependency_on_a_job_long_forgotten_counts_as_done() -> None:
    jobs = [sim_job(f"j{n:04}", n, 1) for n in range(600)]
    last = sim_job("last", 10_000, 1)
    last = msgspec.structs.replace(last, spec=msgspec.structs.replace(last.spec, dependencies=("j0000",)))
    first = msgspec.structs.replace(jobs[1], spec=msgspec.structs.replace(jobs[1].spec, dependencies=("j0000",)))
    results = run(workload(jobs[0], first, *jobs[2:], last, processors=4), "native:fcfs")
    assert results.by_state == {"completed": 601}


def test_equal_workers_are_used_alike_by_the_platform_policy() -> None:
    jobs = [sim_job(f"j{n}", 0, 1_000) for n in range(8)]
    results = run(workload(*jobs), "platform", workers(4, slots=2))
    used = [grant.worker_id for grant in results.grants]
    assert sorted(used) == sorted(2 * [f"w{n}" for n in range(4)])
