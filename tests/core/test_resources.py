"""Named resources and units: who fits where, and ledgers that always sum to their leases."""

from typing import Any

import pytest

from headgate.core.actions import Dispatch, NoCapacity, WorkerUnfit
from headgate.core.cluster import WorkerSpec
from headgate.core.commands import RegisterWorker
from headgate.core.errors import InvalidInput, InvariantBroken, WorkerBusy
from headgate.core.verify import verify
from headgate.testing import Harness, external, job, pool, tenant, worker


def test_jobs_go_to_the_first_worker_that_has_what_they_need() -> None:
    h = Harness()
    h.join(worker("small", slots=4, memory="4GB"), worker("large", slots=4, memory="16GB", gpu=1))
    h.submit_all(
        [
            job("a", resources={"memory": "3GB"}),
            job("b", resources={"memory": "3GB"}),
            job("c", resources={"gpu": 1}),
            job("d", resources={"gpu": 0.5}),
            job("e"),
        ]
    )
    h.cycle()
    h.holds("small", ["a", "e"])
    h.holds("large", ["b", "c"])
    h.is_("queued", "d")
    h.run("c")
    assert h.cycle() == ["d"]


def test_a_small_job_behind_a_large_one_is_not_held_up() -> None:
    h = Harness(total_units=10)
    h.join(worker("w", slots=5))
    h.submit_all([job("a", units=6), job("b", units=6), job("c", units=4)])
    assert h.cycle() == ["a", "c"]


def test_slots_bound_what_a_worker_holds_and_units_what_all_hold() -> None:
    h = Harness(total_units=5)
    h.join(worker("w1", slots=2), worker("w2", slots=9))
    h.submit_all(job(f"j{n}") for n in range(8))
    h.cycle()
    h.holds("w1", ["j0", "j1"])
    h.holds("w2", ["j2", "j3", "j4"])
    assert h.schedule(Dispatch("j5", "w2")) == NoCapacity(1, 0, 1)


def test_a_resource_that_nobody_offers_fits_nowhere() -> None:
    h = Harness()
    h.join(worker("w", memory="1GB"))
    h.submit(job("j", resources={"license": 1}))
    assert h.cycle() == []
    assert h.schedule(Dispatch("j", "w")) == WorkerUnfit("w", "resource", "1 license", "0 license")


def test_fractions_fill_a_worker_exactly_and_leave_it_empty() -> None:
    h = Harness()
    h.join(worker("w", slots=20, cpu=1))
    h.submit_all(job(f"j{n}", resources={"cpu": 0.1}) for n in range(11))
    granted = h.cycle()
    assert len(granted) in (9, 10)  # a tenth is a little more than a tenth once it is exact in binary
    h.run(*granted)
    assert h.state.worker("w").free == {"cpu": 1}
    assert not any(h.state.tenant("default").used.values())


def test_every_ledger_shows_what_is_held() -> None:
    h = Harness()
    h.join(worker("w", slots=3, pool="p", memory="8GB"))
    h.submit_all(
        [job("a", units=4, resources={"memory": "2GB"}), job("b", units=3, tenant="t"), external("c", units=2)]
    )
    h.cycle()
    state = h.state
    assert state.leased_units == 9
    assert (state.pool("p").leased_units, state.pool("p").used) == (7, {"memory": 2 * 10**9})
    assert (state.tenant("t").leased_units, state.tenant("default").leased_units) == (3, 6)
    assert state.worker("w").free["memory"] == 6 * 10**9
    for name in "abc":
        h.cancel(name)
    assert (state.leased_units, state.pool("p").leased_units, state.tenant("t").leases) == (0, 0, 0)


@pytest.mark.parametrize("book", ["units", "worker", "pool", "tenant", "count", "queue"])
def test_verify_finds_a_ledger_that_was_tampered_with(book: str) -> None:
    h = Harness()
    h.join(worker("w", slots=2, memory="8GB"))
    h.submit_all([job("a", resources={"memory": "1GB"}), job("b"), job("c")])
    h.cycle()
    verify(h.state)
    match book:
        case "units":
            h.state.leased_units += 1
        case "worker":
            h.state.worker("w").free["memory"] += 1
        case "pool":
            h.state.pool("default").leased_units -= 1
        case "tenant":
            h.state.tenant("default").leases += 1
        case "count":
            h.state.counts[h.state_of("c")] += 1
        case "queue":
            h.state.job("c").ready = False
    with pytest.raises(InvariantBroken) as caught:
        verify(h.state)
    assert caught.value.problems


def test_a_worker_that_registers_anew_keeps_its_leases_and_must_still_hold_them() -> None:
    h = Harness()
    h.join(worker("w", slots=2, memory="8GB"))
    h.submit(job("j", resources={"memory": "6GB"}))
    h.cycle()
    with pytest.raises(WorkerBusy):
        h.tell(RegisterWorker(worker("w", memory="4GB")))
    h.join(worker("w", slots=1, memory="6GB", pool="elsewhere"))
    h.holds("w", ["j"])
    assert h.state.worker("w").free == {"memory": 0}
    h.run("j")
    assert h.state.worker("w").free == {"memory": 6 * 10**9}


BAD_RESOURCES: list[Any] = [
    (("memory", -1),),
    (("memory", float("nan")),),
    (("memory", 2**60),),
    (("memory", 1), ("memory", 2)),
    (("", 1),),
]


@pytest.mark.parametrize("bad", BAD_RESOURCES)
def test_amounts_that_no_ledger_can_hold_are_refused(bad: Any) -> None:
    h = Harness()
    with pytest.raises(InvalidInput, match="resources"):
        h.tell(RegisterWorker(WorkerSpec("w", resources=bad)))
    report = pool("p")
    with pytest.raises(InvalidInput, match="resources"):
        h.report(type(report)("p", resources=bad))
    spec = tenant("t")
    with pytest.raises(InvalidInput, match="max_resources"):
        h.tenant(type(spec)("t", max_resources=bad))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (WorkerSpec(""), "id"),
        (WorkerSpec("w", pool=""), "pool"),
        (WorkerSpec("w", slots=0), "slots"),
        (WorkerSpec("w", slots=-1), "slots"),
        (WorkerSpec("w", slots=10**9), "slots"),
        (WorkerSpec("w", prefetch=-1), "prefetch"),
    ],
)
def test_a_worker_that_makes_no_sense_is_refused(spec: WorkerSpec, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Harness().tell(RegisterWorker(spec))
    assert caught.value.field == field
