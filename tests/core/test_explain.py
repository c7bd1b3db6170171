"""Why is it waiting? One test for each reason, with its exact words."""

import pytest

from headgate.core import actions as a
from headgate.core.commands import DrainWorker
from headgate.core.errors import JobNotFound
from headgate.core.explain import Explanation, never_starts, startable
from headgate.testing import Harness, external, job, pool, tenant, worker


@pytest.fixture
def h() -> Harness:
    return Harness(total_units=10, lease_ttl=10**8, worker_silence=10**9, preemption=False)


def explained(h: Harness, name: str, *reasons: a.AnyReason, position: int | None) -> None:
    found = h.explain(name)
    assert found == Explanation(name, str(h.state_of(name)), reasons, position)
    assert all(reason.detail() for reason in found.reasons)


def test_blocked_by_which_jobs(h: Harness) -> None:
    h.submit_all([job("a"), job("b"), job("c", after=["b", "a"])])
    explained(h, "c", a.BlockedBy(("a", "b"), 2), position=None)
    assert h.explain("c").reasons[0].detail() == "waits for a, b"


def test_blocked_by_many_names_some_and_counts_all(h: Harness) -> None:
    names = [f"d{n}" for n in range(9)]
    h.submit_all([*map(job, names), job("c", after=names)])
    explained(h, "c", a.BlockedBy(tuple(names[:5]), 9), position=None)
    assert h.explain("c").reasons[0].detail().endswith("and 4 more")


def test_not_before(h: Harness) -> None:
    h.submit(job("j", not_before=h.now / 1000 + 5))
    h.clock.advance(2_000)
    explained(h, "j", a.NotBefore(h.now + 3_000, 3_000), position=None)


def test_a_retry_waits_for_its_time(h: Harness) -> None:
    h.join(worker("w"))
    h.submit(job("j", retry={"attempts": 2, "initial": 4, "jitter": 0}))
    h.cycle()
    h.start("j")
    h.fail("j")
    explained(h, "j", a.NotBefore(h.now + 4_000, 4_000), position=None)


def test_the_busy_gate_without_a_sample() -> None:
    h = Harness(fixed_busy=None)
    h.join(worker("w"))
    h.submit(job("j"))
    explained(h, "j", a.BusyGate(10.0, ("no fresh sample from host",)), position=0)


def test_the_busy_gate_with_a_bad_sample() -> None:
    h = Harness(fixed_busy=None)
    h.join(worker("w"))
    h.submit(job("j"))
    h.sample(cpu=float("nan"))
    explained(h, "j", a.BusyGate(10.0, ("cpu: nan is not a believable value",)), position=0)


def test_the_busy_gate_under_load() -> None:
    h = Harness(fixed_busy=None)
    h.join(worker("w"))
    h.submit(job("j"))
    h.sample(cpu=3.0)
    explained(h, "j", a.BusyGate(10.0, ("cpu is rated 10.0",)), position=0)
    assert h.explain("j").reasons[0].detail() == "busy rating 10.0: cpu is rated 10.0"


def test_what_the_load_leaves_is_too_little_and_which_signal_it_is() -> None:
    h = Harness(fixed_busy=None, fall_half_life=1, poll=10**6)
    h.join(worker("w"))
    h.submit_all([job("j", units=60), job("big", units=101)])
    h.sample(cpu=0.9, memory=0.75)
    explained(h, "j", a.NoCapacity(60, 20, 40), a.BusyGate(8.0, ("cpu is rated 8.0",)), position=0)
    explained(h, "big", a.NeverStarts(101, 100), position=1)
    h.advance(40_000)
    h.sample(cpu=0.6)
    h.advance(100)
    later = a.BusyGate(2.0, ("cpu is rated 2.0", "capacity was reckoned at 8.0 and will be again in 20 s"))
    explained(h, "j", a.NoCapacity(60, 20, 40), later, position=0)


def test_a_job_that_nothing_there_can_run_does_not_start_by_waiting(h: Harness) -> None:
    h.submit_all([job("early"), external("outside"), job("gpu", resources={"gpu": 1}), job("big", units=11)])
    assert not startable(h.state, h.state.jobs["early"])
    assert startable(h.state, h.state.jobs["outside"])
    h.join(worker("w"))
    assert startable(h.state, h.state.jobs["early"])
    assert not startable(h.state, h.state.jobs["gpu"])
    assert not startable(h.state, h.state.jobs["big"])
    h.join(worker("x", gpu=1))
    assert startable(h.state, h.state.jobs["gpu"])
    h.tell(DrainWorker("x"))
    assert not startable(h.state, h.state.jobs["gpu"])


def test_no_capacity_and_how_much_is_missing(h: Harness) -> None:
    h.join(worker("w", slots=5))
    h.submit_all([job("a", units=7), job("b", units=5)])
    h.cycle()
    explained(h, "b", a.NoCapacity(5, 3, 2), position=0)


def test_a_job_that_needs_more_than_there_is_can_never_start_whatever_else_it_waits_for() -> None:
    h = Harness(total_units=10, reserve=2, lease_ttl=10**8)
    h.join(worker("w"))
    h.submit_all([job("a", units=8), job("b", units=9), job("c", units=9, after=["a"])])
    h.submit(job("d", units=9, not_before=h.now / 1000 + 5))
    explained(h, "a", a.Behind(0), position=0)
    explained(h, "b", a.NeverStarts(9, 8), position=1)
    explained(h, "c", a.BlockedBy(("a",), 1), a.NeverStarts(9, 8), position=None)
    explained(h, "d", a.NotBefore(h.now + 5_000, 5_000), a.NeverStarts(9, 8), position=None)
    assert "needs 9 units and there are 8 in all: it can never start" in h.explain("b").reasons[0].detail()


def test_a_job_that_needs_more_than_its_quota_can_never_start(h: Harness) -> None:
    h.join(worker("w"))
    h.tenant(tenant("t", units=3))
    h.submit_all([job("a", units=4, tenant="t"), job("b", units=3, tenant="t")])
    assert never_starts(h.state, h.state.jobs["b"]) is None
    found = never_starts(h.state, h.state.jobs["a"])
    assert found == a.QuotaReached("t", "units", 3, 0, 4)
    assert found.detail().endswith("it can never start unless the quota is raised")
    assert not startable(h.state, h.state.jobs["a"])


def test_when_a_job_starts_that_only_a_closed_pool_can_run_nobody_knows(h: Harness) -> None:
    h.join(worker("w", pool="p"))
    h.submit(job("j"))
    assert startable(h.state, h.state.jobs["j"])
    h.report(pool("p", busy=10.0))
    assert not startable(h.state, h.state.jobs["j"])
    h.report(pool("p", busy=9.0, units=4))
    assert startable(h.state, h.state.jobs["j"])
    h.submit(job("larger", units=5))
    assert not startable(h.state, h.state.jobs["larger"])


def test_in_a_pool_that_must_report_nothing_is_expected_before_it_has() -> None:
    h = Harness(required_pools=("p",))
    h.join(worker("w", pool="p"))
    h.submit(job("j"))
    assert not startable(h.state, h.state.jobs["j"])
    h.report(pool("p", busy=1.0))
    assert startable(h.state, h.state.jobs["j"])


def test_what_the_policy_said_before_the_job_came_is_not_said_of_it(h: Harness) -> None:
    h.schedule(a.Wait("the queue is empty"))
    h.advance(1)
    h.submit(job("j"))
    explained(h, "j", a.NoFittingWorker(0, {}, ()), position=0)
    h.schedule(a.Wait("saving power", 1_000))
    h.advance(1)
    h.submit(job("later"))
    explained(h, "later", a.NoFittingWorker(0, {}, ()), a.PolicyWaits("saving power"), position=1)


def test_no_capacity_in_a_pool(h: Harness) -> None:
    h.join(worker("w", slots=5, pool="p"))
    h.report(pool("p", units=4))
    h.submit_all([job("a", units=3), job("b", units=3)])
    h.cycle()
    explained(h, "b", a.NoCapacity(3, 1, 2, "p"), position=0)


def test_quota(h: Harness) -> None:
    h.join(worker("w", slots=5))
    h.tenant(tenant("t", units=4))
    h.submit_all([job("a", units=3, tenant="t"), job("b", units=3, tenant="t")])
    h.cycle()
    explained(h, "b", a.QuotaReached("t", "units", 4, 3, 3), position=0)


def test_stagger() -> None:
    h = Harness(stagger=500)
    h.join(worker("w", slots=5))
    h.submit_all([job("a"), job("b")])
    h.cycle()
    h.clock.advance(100)
    explained(h, "b", a.Stagger("default", 400), position=0)


def test_no_workers_at_all(h: Harness) -> None:
    h.submit(job("j"))
    explained(h, "j", a.NoFittingWorker(0, {}, ()), position=0)
    assert h.explain("j").reasons[0].detail() == "there are no workers"


def test_no_fitting_worker_and_which_requirement_fails_on_each(h: Harness) -> None:
    h.join(
        worker("typed", types=["other"]),
        worker("left", pool="left"),
        worker("plain"),
        worker("zoned", labels={"zone": "a"}, memory="1GB"),
        worker("full", labels={"zone": "a"}, memory="9GB"),
        worker("model", model="llama", labels={"zone": "a"}, memory="9GB"),
        worker("pulls", pull=True, labels={"zone": "a"}, memory="9GB"),
        worker("drains", labels={"zone": "a"}, memory="9GB"),
    )
    needs = {"pool": "default", "requires": {"zone": "a"}, "resources": {"memory": "2GB"}}
    h.submit_all([job("first", **needs), job("j", **needs)])
    h.grant("first", "full")
    h.tell(DrainWorker("drains"))
    failing = {"type": 1, "pool": 1, "label": 1, "resource": 1, "slots": 1, "model": 1, "claim": 1, "status": 1}
    examples = (
        a.WorkerUnfit("typed", "type", "generic", "other"),
        a.WorkerUnfit("left", "pool", "default", "left"),
        a.WorkerUnfit("plain", "label", "zone=a", "zone="),
        a.WorkerUnfit("zoned", "resource", "2000000000 memory", "1000000000 memory"),
        a.WorkerUnfit("full", "slots", "1 free", "0 free"),
    )
    explained(h, "j", a.NoFittingWorker(8, failing, examples), position=0)


def test_a_worker_without_handlers_is_given_no_job_that_needs_one(h: Harness) -> None:
    h.join(worker("bare", slots=9, handlers=False))
    by_path = {"kind": "python", "handler": "shop.jobs:sum_up"}
    h.submit_all([
        job("named", type="sum_up"),
        job("path", type="sum_up", run=by_path),
        job("command", type="sum_up", run={"kind": "command", "argv": ["true"]}),
    ])  # fmt: skip
    h.cycle()
    assert {lease.job_id for lease in h.state.leases.values()} == {"path", "command"}
    unfit = a.WorkerUnfit("bare", "handler", "sum_up", "")
    explained(h, "named", a.NoFittingWorker(1, {"handler": 1}, (unfit,)), position=0)
    assert not startable(h.state, h.state.jobs["named"])
    h.join(worker("able", slots=9))
    h.cycle()
    assert {lease.job_id: lease.worker_id for lease in h.state.leases.values()}["named"] == "able"


def test_several_reasons_are_all_told(h: Harness) -> None:
    h.tenant(tenant("t", leases=0))
    h.submit(job("j", units=11, tenant="t"))
    explained(
        h,
        "j",
        a.NeverStarts(11, 10),
        a.QuotaReached("t", "leases", 0, 0, 1),
        a.NoFittingWorker(0, {}, ()),
        position=0,
    )


def test_the_policy_said_wait_for_as_long_as_it_said(h: Harness) -> None:
    h.join(worker("w"))
    h.submit(job("j"))
    h.schedule(a.Wait("saving power", 1_000))
    explained(h, "j", a.PolicyWaits("saving power"), position=0)
    h.clock.advance(1_000)
    explained(h, "j", a.Behind(0), position=0)


def test_room_is_being_made() -> None:
    h = Harness(total_units=1, lease_ttl=10**8)
    h.join(worker("w"))
    h.submit(job("low", priority="low"))
    h.cycle()
    h.submit(job("j", priority="high"))
    h.cycle()
    slots = a.WorkerUnfit("w", "slots", "1 free", "0 free")
    explained(
        h,
        "j",
        a.MakingRoom(("low",)),
        a.NoCapacity(1, 0, 1),
        a.NoFittingWorker(1, {"slots": 1}, (slots,)),
        position=0,
    )


def test_behind_others_and_how_many(h: Harness) -> None:
    h.join(worker("w"))
    h.submit_all([job("a"), job("b", rank=1), job("c", priority="high"), job("d", type="t"), job("j"), job("late")])
    explained(h, "j", a.Behind(4), position=4)
    explained(h, "c", a.Behind(0), position=0)
    assert h.explain("c").reasons[0].detail() == "next in line"


@pytest.mark.parametrize("end", ["leased", "running", "completed", "cancelled"])
def test_a_job_that_does_not_wait(h: Harness, end: str) -> None:
    h.join(worker("w"))
    h.submit(job("j"))
    h.cycle()
    if end in ("running", "completed"):
        h.start("j")
    if end == "completed":
        h.complete("j")
    if end == "cancelled":
        h.cancel("j")
    explained(h, "j", a.NotQueued(end), position=None)


def test_an_external_job_needs_only_units(h: Harness) -> None:
    h.submit(external("e"))
    explained(h, "e", a.Behind(0), position=0)


def test_an_unknown_job_has_no_explanation(h: Harness) -> None:
    with pytest.raises(JobNotFound):
        h.explain("nobody")


def test_positions_count_down_as_those_ahead_leave(h: Harness) -> None:
    h.submit_all(job(f"j{n}") for n in range(10))
    positions = [h.explain("j9").position]
    for n in range(9):
        h.cancel(f"j{n}")
        positions.append(h.explain("j9").position)
    assert positions == list(range(9, -1, -1))


def test_positions_agree_with_the_queue_where_jobs_came_back(h: Harness) -> None:
    h.join(worker("w", slots=10))
    h.submit_all(job(f"j{n}", rank=n % 3) for n in range(10))
    h.grant("j4", "w")
    h.grant("j7", "w")
    h.submit(job("late", rank=1))
    h.release("j4")
    h.release("j7")
    found = {name: h.explain(name).position for name in h.queue()}
    assert found == {name: place for place, name in enumerate(h.queue())}
