"""Workers and pools come, claim, prefetch, drain, fall silent, fail and go."""

from typing import Any

import pytest

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import BadAction, BusyGate, Dispatch, Evict, NoCapacity, StartWorker, WorkerUnfit
from headgate.core.check import pool_closed
from headgate.core.cluster import ModelSpec, PoolReport
from headgate.core.errors import Conflict, InvalidInput, ModelNotFound, PoolNotFound, WorkerBusy, WorkerNotFound
from headgate.testing import Harness, external, gpu, job, model, pool, worker


@pytest.fixture
def h() -> Harness:
    return Harness()


# -- slots, prefetch, claims ---------------------------------------------------------------------------------------


def test_prefetch_holds_further_leases_that_cannot_start_yet(h: Harness) -> None:
    h.join(worker("w", slots=2, prefetch=1))
    h.submit_all(job(f"j{n}") for n in range(4))
    assert h.cycle() == ["j0", "j1", "j2"]
    h.start("j0", "j1")
    with pytest.raises(WorkerBusy):
        h.start("j2")
    h.complete("j0")
    h.start("j2")
    assert h.cycle() == ["j3"]


def test_starting_twice_is_once(h: Harness) -> None:
    h.join(worker("w"))
    h.submit(job("j"))
    h.cycle()
    h.start("j", "j", "j")
    assert len(h.seen(e.JobStarted)) == 1
    assert h.state.worker("w").running == 1


def test_a_pulling_worker_gets_what_it_claims_and_no_more(h: Harness) -> None:
    h.join(worker("w", slots=5, pull=True))
    h.submit_all(job(f"j{n}") for n in range(4))
    assert h.cycle() == []
    assert h.schedule(Dispatch("j0", "w")) == WorkerUnfit("w", "claim", "an open claim", "none")
    h.tell(c.Claim("w", 2))
    assert h.cycle() == ["j0", "j1"]
    h.tell(c.Claim("w", 3))
    h.tell(c.Claim("w", 0))
    assert h.cycle() == []


def test_only_pulling_workers_claim_and_never_less_than_nothing(h: Harness) -> None:
    h.join(worker("pushed"), worker("pulls", pull=True))
    with pytest.raises(Conflict):
        h.tell(c.Claim("pushed"))
    with pytest.raises(InvalidInput, match="claims"):
        h.tell(c.Claim("pulls", -1))
    with pytest.raises(WorkerNotFound):
        h.tell(c.Claim("nobody"))


def test_an_external_job_needs_no_worker_and_takes_none(h: Harness) -> None:
    h.submit(external("e", units=5))
    assert h.cycle() == ["e"]
    assert h.lease("e").worker_id is None
    h.run("e")
    h.join(worker("w"))
    h.submit_all([external("f"), job("g")])
    assert h.schedule(Dispatch("f", "w")) == BadAction("an external job needs no worker")
    assert isinstance(h.schedule(Dispatch("g")), BadAction)


def test_jobs_go_only_where_type_pool_and_labels_agree(h: Harness) -> None:
    h.join(
        worker("typed", slots=9, types=["proof"]),
        worker("left", slots=9, pool="left"),
        worker("zoned", slots=9, labels={"zone": "a", "disk": "ssd"}),
    )
    h.submit_all(
        [
            job("a", type="proof", requires={"zone": "a"}),
            job("b", type="proof", pool="left"),
            job("c", type="other", requires={"zone": "a", "disk": "ssd"}),
            job("d", type="proof", pool="default"),
            job("e", requires={"zone": "b"}),
        ]
    )
    h.cycle()
    h.holds("typed", ["d"])
    h.holds("left", ["b"])
    h.holds("zoned", ["a", "c"])
    h.is_("queued", "e")


def test_a_worker_with_a_model_is_left_to_jobs_for_it(h: Harness) -> None:
    h.join(worker("m", model="llama", slots=2), worker("plain"))
    h.submit_all([job("a"), job("b"), job("c", model_ref="llama"), job("d", model_ref="other")])
    h.cycle()
    h.holds("plain", ["a"])
    h.holds("m", ["c"])
    assert h.schedule(Dispatch("b", "m")) is None  # a policy may think otherwise


# -- coming and going ----------------------------------------------------------------------------------------------


def test_a_draining_worker_finishes_and_gets_nothing_more(h: Harness) -> None:
    h.join(worker("w", slots=2))
    h.submit_all([job("a"), job("b")])
    h.grant("a", "w")
    h.tell(c.DrainWorker("w", "upgrade"))
    h.tell(c.DrainWorker("w"))
    assert len(h.seen(e.WorkerChanged)) == 1
    assert h.cycle() == []
    h.run("a")
    h.tell(c.RemoveWorker("w"))
    with pytest.raises(WorkerNotFound):
        h.tell(c.RemoveWorker("w"))


def test_a_drained_worker_is_given_work_again(h: Harness) -> None:
    h.join(worker("w"), worker("v"))
    h.submit(job("a"))
    for name in ("w", "v"):
        h.tell(c.DrainWorker(name))
    assert h.cycle() == []
    h.tell(c.UndrainWorker("w", "upgraded"))
    h.tell(c.UndrainWorker("w"))
    assert [event.status for event in h.seen(e.WorkerChanged)] == ["draining", "draining", "ready"]
    h.cycle()
    h.holds("w", ["a"])
    with pytest.raises(WorkerNotFound):
        h.tell(c.UndrainWorker("nobody"))


def test_a_drained_worker_that_fell_silent_has_to_be_heard_first(h: Harness) -> None:
    h.join(worker("w"))
    h.tell(c.DrainWorker("w"))
    h.advance(h.state.settings.worker_silence + 1)
    h.tell(c.UndrainWorker("w"))
    assert h.state.worker("w").status == "offline"
    h.tell(c.WorkerBeat("w"))
    assert h.state.worker("w").status == "ready"


def test_a_failed_worker_loses_what_it_held_and_is_back_when_it_registers(h: Harness) -> None:
    h.join(worker("w", slots=2))
    h.submit_all([job("a"), job("b", retry={"attempts": 2, "initial": 0})])
    h.cycle()
    h.start("a")
    h.kill("w")
    h.is_("expired", "a")
    h.is_("queued", "b")
    h.tick()
    assert h.cycle() == []
    h.join(worker("w"))
    assert h.cycle() == ["b"]


def test_a_worker_with_leases_leaves_only_by_force(h: Harness) -> None:
    h.join(worker("w"))
    h.submit(job("a"))
    h.cycle()
    with pytest.raises(WorkerBusy):
        h.tell(c.RemoveWorker("w"))
    h.tell(c.RemoveWorker("w", force=True))
    h.is_("expired", "a")
    assert not h.state.workers


def test_a_silent_worker_goes_offline_and_is_back_at_its_next_sign_of_life() -> None:
    h = Harness(worker_silence=60_000)
    h.join(worker("w"))
    h.advance(60_000)
    assert h.state.worker("w").status == "ready"
    h.advance(1)
    assert h.state.worker("w").status == "offline"
    h.submit(job("a"))
    assert h.cycle() == []
    h.tell(c.WorkerBeat("w"))
    assert h.cycle() == ["a"]


def test_heartbeats_of_its_leases_are_signs_of_life_of_a_worker() -> None:
    h = Harness(worker_silence=60_000, lease_ttl=50_000)
    h.join(worker("w"))
    h.submit(job("a"))
    h.cycle()
    for _ in range(5):
        h.advance(40_000)
        h.beat("a")
    assert h.state.worker("w").status == "ready"
    assert h.state.worker("w").shown_status == "busy"


# -- pools ---------------------------------------------------------------------------------------------------------


def test_a_silent_pool_degrades_then_goes_offline_and_is_back_when_it_reports() -> None:
    h = Harness(pool_degraded=15_000, pool_offline=60_000, worker_silence=10**9)
    h.report(pool("p"))
    h.join(worker("w", pool="p", slots=3))
    h.submit_all([job("a"), job("b"), job("c")])
    h.grant("a", "w")
    h.advance(15_001)
    assert h.state.pool("p").status == "degraded"
    h.grant("b", "w")
    h.advance(45_000)
    assert h.state.pool("p").status == "offline"
    h.is_("expired", "a", "b")
    h.hear("w")
    assert h.cycle() == []
    assert h.schedule(Dispatch("c", "w")) == BadAction("pool p is offline")
    h.report(pool("p"))
    assert h.state.pool("p").status == "online"
    assert h.cycle() == ["c"]


def test_what_has_been_offline_for_long_is_forgotten_and_a_required_pool_is_not() -> None:
    h = Harness(forget_offline=600_000, required_pools=("q",), lease_ttl=10**9)
    for name in ("p", "q"):
        h.report(pool(name))
    h.join(worker("w", pool="p"), worker("drained", pool="p"), worker("holds", pool="r"))
    h.tell(c.DrainWorker("drained"))
    h.submit(job("a", pool="r"))
    h.cycle()
    h.advance(600_000)
    assert {name: seen.status for name, seen in h.state.pools.items()} == {
        "p": "offline",
        "q": "offline",
        "r": "online",
    }
    h.advance(1_000)
    assert set(h.state.workers) == {"holds"}
    h.advance(1_000)
    assert set(h.state.pools) == {"q", "r"}


def test_a_report_is_a_sign_of_life_of_the_pool_s_own_workers() -> None:
    h = Harness(worker_silence=10_000)
    h.join(worker("w", pool="p"), worker("x", pool="q"))
    h.advance(10_001)
    h.report(pool("p", workers=["w", "x", "nobody"]))
    assert h.state.worker("w").status == "ready"
    assert h.state.worker("x").status == "offline"


def test_a_pool_that_never_reports_is_not_missed(h: Harness) -> None:
    h.join(worker("w", pool="p"))
    h.advance(30_000)
    assert h.state.pool("p").status == "online"


def test_a_pool_s_own_units_bind_and_shrink_with_its_own_load(h: Harness) -> None:
    h.join(worker("w", pool="p", slots=20))
    h.report(pool("p", units=10, busy=5.0))
    h.submit_all(job(f"j{n}", units=2) for n in range(6))
    assert h.cycle() == ["j0", "j1"]
    assert h.schedule(Dispatch("j2", "w")) == NoCapacity(2, 1, 1, "p")
    h.report(pool("p", units=10, busy=0.0))
    assert len(h.cycle()) == 3


@pytest.mark.parametrize("busy", [10.0, 11.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("units", [None, 10])
def test_a_pool_too_busy_or_not_to_be_believed_gets_nothing(h: Harness, busy: float, units: int | None) -> None:
    h.join(worker("w", pool="p"), worker("x", pool="q"))
    h.report(pool("p", busy=busy, units=units))
    h.submit_all([job("a"), job("b", priority="high")])
    h.cycle()
    h.holds("w", [])
    h.holds("x", ["b"])
    assert h.schedule(Dispatch("a", "w")) == BusyGate(10.0, ("pool p is busy",))


def test_a_pool_that_rates_itself_and_falls_silent_gets_nothing_until_it_is_heard_again() -> None:
    h = Harness(pool_degraded=15_000, worker_silence=10**9, lease_ttl=10**9)
    h.join(worker("w", pool="p", slots=2), worker("x", pool="q"))
    h.report(pool("p", busy=0.0, units=10))
    h.submit_all([job("a", pool="p"), job("b", pool="p"), job("c")])
    h.advance(15_000)
    h.grant("a", "w")
    h.advance(1)
    assert h.schedule(Dispatch("b", "w")) == BusyGate(10.0, ("no fresh report from pool p",))
    assert h.state.pool("p").usable_units() == 0
    assert h.cycle() == ["c"], "the other machine goes on"
    h.is_("leased", "a")
    h.report(pool("p", busy=0.0, units=10))
    assert h.cycle() == ["b"]


def test_the_silence_of_a_pool_is_noticed_without_a_tick() -> None:
    h = Harness(pool_degraded=15_000, lease_ttl=10**9)
    h.join(worker("w", pool="p"))
    h.report(pool("p", busy=0.0))
    h.submit(job("a"))
    job_a = h.state.jobs["a"]
    assert pool_closed(h.state, job_a.kind.bucket.shape, "p", h.now + 15_000) is None
    assert isinstance(pool_closed(h.state, job_a.kind.bucket.shape, "p", h.now + 15_001), BusyGate)


def test_a_pool_that_must_report_gets_nothing_before_it_has() -> None:
    h = Harness(required_pools=("p",))
    h.join(worker("w", pool="p"))
    h.submit(job("a"))
    assert h.cycle() == []
    assert h.schedule(Dispatch("a", "w")) == BusyGate(10.0, ("pool p has not reported yet",))
    h.report(pool("p", busy=3.0))
    assert h.cycle() == ["a"]


def test_a_busy_pool_names_its_bottleneck(h: Harness) -> None:
    h.join(worker("w", pool="p"))
    h.report(PoolReport("p", busy=10.0, signals=(("cpu", 10.0), ("memory", 2.0))))
    h.submit(job("a"))
    assert h.schedule(Dispatch("a", "w")) == BusyGate(10.0, ("pool p is busy", "cpu is rated 10.0"))


def test_a_pool_s_resources_are_shared_by_its_workers(h: Harness) -> None:
    h.join(worker("w", pool="p", slots=9, network=10), worker("x", pool="p", slots=9, network=10))
    h.report(pool("p", network=15))
    h.submit_all(job(f"j{n}", resources={"network": 5}) for n in range(4))
    assert h.cycle() == ["j0", "j1", "j2"]
    assert h.schedule(Dispatch("j3", "x")) == WorkerUnfit("p", "resource", "5 network", "0 network")


def test_only_an_empty_pool_can_go(h: Harness) -> None:
    h.join(worker("w", pool="p"))
    with pytest.raises(Conflict):
        h.tell(c.RemovePool("p"))
    h.tell(c.RemoveWorker("w"))
    h.tell(c.RemovePool("p"))
    with pytest.raises(PoolNotFound):
        h.tell(c.RemovePool("p"))


BAD_REPORTS: list[tuple[Any, str]] = [(PoolReport(""), "id"), (PoolReport("p", units=-1), "units")]


@pytest.mark.parametrize(("report", "field"), BAD_REPORTS)
def test_a_report_that_makes_no_sense_is_refused(h: Harness, report: PoolReport, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        h.report(report)
    assert caught.value.field == field


# -- evict and start_worker ----------------------------------------------------------------------------------------


def test_an_administrator_evicts_any_worker_and_its_leases_stay_until_it_lets_go(h: Harness) -> None:
    h.join(worker("w", slots=2))
    h.submit_all([job("a"), job("b")])
    h.grant("a", "w")
    h.tell(c.EvictWorker("w", "it burns"))
    assert [(event.id, event.reason) for event in h.seen(e.WorkerEvicted)] == [("w", "it burns")]
    assert h.cycle() == []
    h.holds("w", ["a"])
    h.release("a")
    h.is_("queued", "a", "b")
    with pytest.raises(WorkerNotFound):
        h.tell(c.EvictWorker("nobody"))


def test_only_an_idle_worker_that_is_up_is_evicted(h: Harness) -> None:
    h.join(worker("idle", model="m"), worker("works"))
    h.submit(job("a"))
    h.grant("a", "works")
    assert h.schedule(Evict("works")) == WorkerUnfit("works", "needed", "no leases", "1 leases")
    assert isinstance(h.schedule(Evict("nobody")), BadAction)
    assert h.schedule(Evict("idle", "room for another model")) is None
    assert h.state.worker("idle").status == "draining"
    assert h.schedule(Evict("idle")) == WorkerUnfit("idle", "status", "ready", "draining")


def test_a_worker_is_started_where_its_model_fits(h: Harness) -> None:
    h.report(pool("p", gpus=[gpu("g0", "24GB", "20GB"), gpu("g1", "24GB")]))
    h.tell(c.SetModel(model("m", "16GB", aliases=["alias"])))
    assert h.schedule(StartWorker("m", "p", "g0")) == WorkerUnfit(
        "p", "resource", "16000000000 vram", "4000000000 vram"
    )
    assert isinstance(h.schedule(StartWorker("alias", "p", "g0")), WorkerUnfit)
    assert isinstance(h.schedule(StartWorker("m", "p", "g9")), BadAction)
    assert isinstance(h.schedule(StartWorker("m", "nowhere")), BadAction)
    assert h.schedule(StartWorker("m", "p", "g1", "a job waits for it")) is None
    assert h.state.worker("p/m@g1").status == "starting"
    assert isinstance(h.schedule(StartWorker("m", "p", "g1")), BadAction)
    h.submit(job("j", model_ref="m"))
    assert h.cycle() == []
    h.join(worker("p/m@g1", pool="p", model="m", gpus=["g1"]))
    assert h.cycle() == ["j"]


def test_no_worker_is_started_in_a_pool_that_is_not_heard() -> None:
    h = Harness()
    h.report(pool("p"))
    h.advance(20_000)
    assert h.schedule(StartWorker("m", "p")) == BadAction("pool p is degraded")


def test_the_catalog_knows_models_by_name_and_alias(h: Harness) -> None:
    h.tell(c.SetModel(model("m", "1GB", aliases=["alias"])))
    assert h.state.model("alias").id == "m"
    h.tell(c.RemoveModel("alias"))
    with pytest.raises(ModelNotFound):
        h.tell(c.RemoveModel("m"))
    for wrong, field in ((ModelSpec(""), "id"), (ModelSpec("m", vram=-1), "vram")):
        with pytest.raises(InvalidInput, match=field):
            h.tell(c.SetModel(wrong))
