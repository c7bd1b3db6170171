"""Tenants' quotas are hard; the queue has a depth; starts keep their distance."""

from typing import Any

import pytest

from headgate.core.actions import Dispatch, QuotaReached, Stagger
from headgate.core.commands import RemoveTenant
from headgate.core.errors import InvalidInput, QueueFull, QuotaExceeded, TenantNotFound
from headgate.core.tenants import TenantSpec
from headgate.testing import Harness, job, tenant, worker


@pytest.fixture
def h() -> Harness:
    harness = Harness()
    harness.join(worker("w", slots=9, memory="64GB"))
    return harness


def test_a_tenant_holds_no_more_units_than_its_quota(h: Harness) -> None:
    h.tenant(tenant("t", units=10))
    h.submit_all([job("a", units=6, tenant="t"), job("b", units=6, tenant="t"), job("c", units=6)])
    assert h.cycle() == ["a", "c"]
    assert h.schedule(Dispatch("b", "w")) == QuotaReached("t", "units", 10, 6, 6)


def test_a_tenant_holds_no_more_leases_than_its_quota(h: Harness) -> None:
    h.tenant(tenant("t", leases=2))
    h.submit_all(job(f"j{n}", tenant="t", units=0) for n in range(3))
    assert h.cycle() == ["j0", "j1"]
    assert h.schedule(Dispatch("j2", "w")) == QuotaReached("t", "leases", 2, 2, 1)
    h.run("j0")
    assert h.cycle() == ["j2"]


def test_a_tenant_holds_no_more_of_a_resource_than_its_quota(h: Harness) -> None:
    h.tenant(tenant("t", memory="8GB"))
    h.submit_all(job(f"j{n}", tenant="t", resources={"memory": "3GB"}) for n in range(3))
    assert h.cycle() == ["j0", "j1"]
    assert h.schedule(Dispatch("j2", "w")) == QuotaReached("t", "memory", 8 * 10**9, 6 * 10**9, 3 * 10**9)


def test_a_tenant_queues_no_more_jobs_than_its_quota(h: Harness) -> None:
    h.tenant(tenant("t", queued=2))
    h.submit_all([job("a", tenant="t"), job("b", tenant="t", after=["a"])])
    with pytest.raises(QuotaExceeded) as caught:
        h.submit(job("c", tenant="t"))
    assert (caught.value.tenant, caught.value.limit) == ("t", 2)
    assert caught.value.retry_after > 0
    h.submit(job("other"))
    h.grant("a", "w")
    h.submit(job("c", tenant="t"))
    with pytest.raises(QuotaExceeded):
        h.submit_all([job("d", tenant="t"), job("e")])
    assert "e" not in h.state.jobs


def test_a_quota_lowered_below_what_is_held_takes_nothing_back_and_grants_nothing(h: Harness) -> None:
    h.submit_all(job(f"j{n}", tenant="t", units=5) for n in range(4))
    h.grant("j0", "w")
    h.grant("j1", "w")
    h.tenant(tenant("t", units=5))
    assert h.cycle() == []
    h.holds("w", ["j0", "j1"])
    h.run("j0")
    assert h.cycle() == []
    h.tenant(tenant("t", units=10))
    assert h.cycle() == ["j2"]


def test_a_quota_of_nothing_stops_a_tenant_and_removing_it_frees_it(h: Harness) -> None:
    h.tenant(tenant("t", units=0))
    h.submit(job("j", tenant="t"))
    assert h.cycle() == []
    h.tell(RemoveTenant("t"))
    assert h.cycle() == ["j"]
    h.run("j")
    h.tell(RemoveTenant("t"))
    with pytest.raises(TenantNotFound):
        h.tell(RemoveTenant("t"))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"id": ""}, "id"),
    ({"weight": 0}, "weight"),
    ({"weight": -1.0}, "weight"),
    ({"weight": float("nan")}, "weight"),
    ({"weight": float("inf")}, "weight"),
    ({"max_units": -1}, "max_units"),
    ({"max_leases": -1}, "max_leases"),
    ({"max_queued": -1}, "max_queued"),
]


@pytest.mark.parametrize(("changes", "field"), BAD)
def test_a_tenant_that_makes_no_sense_is_refused(h: Harness, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        h.tenant(TenantSpec(**{"id": "t", **changes}))
    assert caught.value.field == field


# -- the depth of the queue ----------------------------------------------------------------------------------------


def test_a_full_queue_refuses_and_says_how_deep_it_is_and_when_to_come_back() -> None:
    h = Harness(max_queue_depth=3)
    h.join(worker("w"))
    h.submit_all([job("a"), job("b"), job("c", after=["a"])])
    with pytest.raises(QueueFull) as caught:
        h.submit(job("d"))
    assert (caught.value.depth, caught.value.limit, caught.value.code) == (3, 3, "queue_full")
    assert caught.value.retry_after > 0
    h.cycle()
    h.submit(job("d"))


def test_a_bulk_that_does_not_fit_whole_is_refused_whole() -> None:
    h = Harness(max_queue_depth=3)
    h.submit(job("a"))
    with pytest.raises(QueueFull):
        h.submit_all([job("b"), job("c"), job("d")])
    assert list(h.state.jobs) == ["a"]
    h.submit_all([job("b"), job("c")])


def test_a_repeat_of_a_key_is_answered_even_where_the_queue_is_full() -> None:
    h = Harness(max_queue_depth=1)
    first = h.submit(job("a", idempotency_key="k"))
    assert h.submit(job("a", idempotency_key="k")) == first


def test_a_job_that_comes_back_is_let_in_however_full_the_queue_is() -> None:
    h = Harness(max_queue_depth=1)
    h.join(worker("w"))
    h.submit(job("a"))
    h.cycle()
    h.submit(job("b"))
    h.release("a")
    assert h.queue() == ["a", "b"]


# -- stagger -------------------------------------------------------------------------------------------------------


def test_starts_in_a_pool_keep_their_distance() -> None:
    h = Harness(stagger=1_000)
    h.join(worker("w", slots=5), worker("x", slots=5, pool="other"))
    h.submit_all(job(f"j{n}") for n in range(6))
    assert h.cycle() == ["j0", "j1"]
    h.holds("w", ["j0"])
    h.holds("x", ["j1"])
    assert h.schedule(Dispatch("j2", "w")) == Stagger("default", 1_000)
    h.clock.advance(999)
    assert h.cycle() == []
    assert h.schedule(Dispatch("j2", "w")) == Stagger("default", 1)
    h.clock.advance(1)
    assert h.cycle() == ["j2", "j3"]


def test_a_staggered_high_job_stops_nobody() -> None:
    h = Harness(stagger=1_000)
    h.join(worker("w", slots=2))
    h.submit(job("low", priority="low"))
    h.cycle()
    h.submit(job("high", priority="high"))
    assert h.cycle() == []
    h.clock.advance(1_000)
    assert h.cycle() == ["high"]
    h.is_("leased", "low")
