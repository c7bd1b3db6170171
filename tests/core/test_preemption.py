"""A high job may stop low ones: whom, how, and when not."""

from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import BadAction, NotQueued, Preempt
from headgate.core.errors import OutcomeConflict, StaleLease
from headgate.testing import Harness, external, job, pool, tenant, worker


def full(*priorities: str, **changes: Any) -> Harness:
    """One worker, every slot and unit taken: job `v0` of the first priority, `v1` of the second, ..."""
    h = Harness(**{"total_units": len(priorities), "lease_ttl": 10**8, "worker_silence": 10**9, **changes})
    h.join(worker("w", slots=len(priorities)))
    for n, priority in enumerate(priorities):
        h.submit(job(f"v{n}", priority=priority))
        h.grant(f"v{n}", "w")
    return h


def victims(h: Harness) -> list[str]:
    return [event.job_id for event in h.seen(e.PreemptionAsked)]


def urgent(h: Harness, name: str = "urgent", **fields: Any) -> None:
    h.submit(job(name, **{"priority": "high", **fields}))
    h.cycle()


def test_the_lowest_class_is_stopped_first() -> None:
    h = full("low", "background", "low")
    h.start("v0", "v1", "v2")
    urgent(h)
    assert victims(h) == ["v1"]


def test_of_one_class_the_one_that_loses_least_work_is_stopped() -> None:
    h = full("low", "low", "low")
    for name in ("v1", "v2", "v0"):
        h.start(name)
        h.clock.advance(1_000)
    urgent(h)
    assert victims(h) == ["v0"]


def test_one_that_did_not_start_or_can_checkpoint_loses_nothing() -> None:
    h = full("low", "low")
    h.start("v0")
    h.clock.advance(5)
    urgent(h)
    assert victims(h) == ["v1"]

    h = Harness(total_units=2, lease_ttl=10**8)
    h.join(worker("w", slots=2))
    h.submit_all([job("short", priority="low"), job("long", priority="low", checkpointable=True)])
    h.cycle()
    h.start("long")
    h.clock.advance(60_000)
    h.start("short")
    h.clock.advance(1_000)
    urgent(h)
    assert victims(h) == ["long"]


def test_no_more_are_stopped_than_needed() -> None:
    h = Harness(total_units=10, lease_ttl=10**8)
    h.join(worker("w", slots=9))
    h.submit_all(
        [
            job("one", units=1, priority="low"),
            job("two", units=2, priority="low"),
            job("seven", units=7, priority="low"),
        ]
    )
    h.cycle()
    for name in ("seven", "two", "one"):
        h.start(name)
        h.clock.advance(10)
    urgent(h, units=7)
    assert victims(h) == ["seven"]


@pytest.mark.parametrize("kept", ["normal", "high"])
def test_normal_and_high_jobs_are_not_stopped(kept: str) -> None:
    h = full(kept)
    urgent(h)
    assert victims(h) == []
    assert h.schedule(Preempt("urgent", ("v0",))) == BadAction("'v0' is of a class that is not preempted")


@pytest.mark.parametrize("priority", ["normal", "low", "background"])
def test_only_high_jobs_stop_others(priority: str) -> None:
    h = full("background")
    urgent(h, priority=priority)
    assert victims(h) == []
    assert h.schedule(Preempt("urgent", ("v0",))) == BadAction("jobs of this class do not preempt")


def test_preemption_may_be_turned_off() -> None:
    h = full("background", preemption=False)
    urgent(h)
    assert victims(h) == []


# -- how it goes ---------------------------------------------------------------------------------------------------


def test_the_victim_is_told_at_its_next_heartbeat_and_fenced_after_its_grace() -> None:
    h = full("low", preemption_grace=5_000)
    h.start("v0")
    lease = h.lease("v0")
    assert h.beat("v0").let_go_by is None
    urgent(h)
    h.is_("running", "v0")
    assert h.beat("v0").let_go_by == h.now + 5_000
    assert h.tell(c.Heartbeats(((lease.id, lease.token),)))[0].let_go_by == h.now + 5_000
    h.advance(4_999)
    h.is_("running", "v0")
    h.advance(1)
    h.is_("queued", "v0")
    assert h.state.job("v0").attempt == 0
    words: list[c.Command[Any]] = [
        c.Heartbeat(lease.id, lease.token),
        c.Start(lease.id, lease.token),
        c.Complete(lease.id, lease.token),
    ]
    for word in words:
        with pytest.raises(StaleLease):
            h.tell(word)
    h.tell(c.Release(lease.id, lease.token))
    assert h.cycle() == ["urgent"]
    h.run("urgent")
    assert h.cycle() == ["v0"]


def test_a_victim_may_let_go_at_once() -> None:
    h = full("low", preemption_grace=60_000)
    h.start("v0")
    urgent(h)
    h.release("v0")
    assert h.seen(e.LeaseReleased)[-1].cause == "preempt"
    assert h.cycle() == ["urgent"]


def test_a_victim_may_finish_within_its_grace() -> None:
    h = full("low")
    h.start("v0")
    urgent(h)
    lease = h.lease("v0")
    h.complete("v0")
    h.is_("completed", "v0")
    assert h.cycle() == ["urgent"]
    with pytest.raises(OutcomeConflict):
        h.tell(c.Release(lease.id, lease.token))


def test_nobody_else_is_stopped_while_room_is_being_made() -> None:
    h = full("low", "low", "low")
    urgent(h)
    h.cycle()
    h.clock.advance(1_000)
    h.cycle()
    assert len(victims(h)) == 1
    assert h.schedule(Preempt("urgent", ("v2",))) == BadAction("room is being made for this job already")
    urgent(h, "second", type="other")
    assert sorted(victims(h)) == ["v0", "v1"]


def test_the_grace_of_a_victim_does_not_outlive_its_lease() -> None:
    h = full("low", lease_ttl=5_000, preemption_grace=60_000)
    urgent(h)
    h.advance(5_000)
    h.is_("expired", "v0")
    h.hear("w")
    assert h.cycle() == ["urgent"]


# -- no preemption without room --------------------------------------------------------------------------------------


def nothing_stopped(h: Harness, **fields: Any) -> None:
    urgent(h, **fields)
    assert victims(h) == []
    held = tuple(lease.job_id for lease in h.state.leases.values())
    if held and h.state_of("urgent") == "queued":
        assert isinstance(h.schedule(Preempt("urgent", held)), BadAction)
    assert victims(h) == []


def test_nobody_is_stopped_where_the_job_fits_already() -> None:
    h = full("low")
    h.join(worker("free"))
    h.submit(job("urgent", priority="high", units=0))
    assert h.cycle() == ["urgent"]
    assert victims(h) == []


def test_nobody_is_stopped_for_a_job_that_fits_nowhere() -> None:
    for fields in ({"units": 5}, {"resources": {"gpu": 1}}, {"requires": {"zone": "a"}}, {"pool": "elsewhere"}):
        nothing_stopped(full("low", "low"), **fields)


def test_nobody_is_stopped_for_a_tenant_over_its_quota() -> None:
    h = full("low")
    h.tenant(tenant("t", units=0))
    nothing_stopped(h, tenant="t")


def test_a_tenant_may_make_room_in_its_own_quota() -> None:
    h = Harness(lease_ttl=10**8)
    h.join(worker("w", slots=5))
    h.tenant(tenant("t", units=1, memory="1GB"))
    h.submit(job("low", priority="low", tenant="t"))
    h.cycle()
    urgent(h, tenant="t")
    assert victims(h) == ["low"]


def test_nobody_is_stopped_while_the_gate_is_shut() -> None:
    h = Harness(fixed_busy=None, lease_ttl=10**8)
    h.join(worker("w"))
    h.sample(cpu=0.0)
    h.submit(job("low", priority="low", units=0))
    h.cycle()
    h.sample(cpu=5.0)
    nothing_stopped(h, units=0)


def test_nobody_is_stopped_on_a_machine_that_stays_shut() -> None:
    for busy in (10.0, float("nan")):
        h = full("low", "low")
        h.report(pool("default", busy=busy, units=50))
        nothing_stopped(h)
        h = full("low", "low")
        h.report(pool("default", busy=busy))
        nothing_stopped(h)


def test_nobody_is_stopped_where_the_machine_lacks_a_resource_all_the_same() -> None:
    h = Harness(total_units=9, lease_ttl=10**8)
    h.join(worker("w", slots=1, network=50))
    h.submit(job("low", priority="low", resources={"network": 1}))
    h.cycle()
    h.report(pool("default", network=10))
    nothing_stopped(h, resources={"network": 20})


def test_room_in_a_pool_is_made_like_any_other() -> None:
    h = Harness(lease_ttl=10**8)
    h.join(worker("w", slots=9, pool="p"))
    h.report(pool("p", units=2))
    h.submit_all([job("a", priority="low"), job("b", priority="background")])
    h.cycle()
    urgent(h)
    assert victims(h) == ["b"]
    h.release("b")
    assert h.cycle() == ["urgent"]


def test_a_worker_kept_for_a_model_is_neither_room_nor_emptied() -> None:
    h = full("low")
    h.join(worker("m", model="llama"))
    urgent(h, units=0)
    assert victims(h) == ["v0"]

    h = Harness(lease_ttl=10**8)
    h.join(worker("m", model="llama"))
    h.submit(job("low", priority="low", model_ref="llama"))
    h.cycle()
    urgent(h)
    assert victims(h) == []


def test_a_pulling_worker_that_asks_for_nothing_is_no_room() -> None:
    h = full("low")
    h.join(worker("pulls", pull=True))
    urgent(h, units=0)
    assert victims(h) == ["v0"]


def test_an_external_job_makes_room_in_units() -> None:
    h = full("low", "background")
    h.submit(external("e", priority="high"))
    h.cycle()
    assert victims(h) == ["v1"]


def test_victims_on_one_worker_are_preferred_to_units_from_anywhere() -> None:
    h = Harness(total_units=4, lease_ttl=10**8)
    h.join(worker("w1", slots=2), worker("w2", slots=2))
    for n, where in enumerate(["w1", "w1", "w2", "w2"]):
        h.submit(job(f"v{n}", priority="low"))
        h.grant(f"v{n}", where)
    urgent(h, units=2)
    assert victims(h) in (["v0", "v1"], ["v2", "v3"])
    for name in victims(h):
        h.release(name)
    assert "urgent" in h.cycle()


# -- proposals that make no sense ----------------------------------------------------------------------------------


def test_a_preemption_that_makes_no_sense_is_refused_with_its_reason() -> None:
    h = full("low", "low", "normal")
    h.submit(job("urgent", priority="high"))
    cases: list[tuple[Preempt, str]] = [
        (Preempt("nobody", ("v0",)), "no job"),
        (Preempt("urgent", ()), "names its victims"),
        (Preempt("urgent", ("v0", "v0")), "names its victims"),
        (Preempt("urgent", ("nobody",)), "holds no lease"),
        (Preempt("urgent", ("urgent",)), "holds no lease"),
        (Preempt("urgent", ("v0", "v2")), "not preempted"),
    ]
    for action, problem in cases:
        reason = h.schedule(action)
        assert isinstance(reason, BadAction)
        assert problem in reason.problem
    assert h.schedule(Preempt("v0", ("v1",))) == NotQueued("leased")
    assert victims(h) == []
    h.schedule(Preempt("urgent", ("v0",)))
    h.submit(job("second", priority="high"))
    assert h.schedule(Preempt("second", ("v0",))) == BadAction("'v0' is being preempted already")


def test_a_victim_is_spared_when_the_job_it_made_room_for_is_gone() -> None:
    h = full("low")
    h.start("v0")
    urgent(h)
    assert victims(h) == ["v0"]
    h.cancel("urgent")
    assert not h.state.preempting
    h.clock.advance(h.state.settings.preemption_grace)
    h.tell(c.Tick())
    assert [event.job_id for event in h.seen(e.PreemptionLifted)] == ["v0"]
    assert str(h.state.jobs["v0"].state) == "running"
    urgent(h, "another")
    assert victims(h) == ["v0", "v0"]
