"""Status, load, health and metrics: what the server says of itself is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.policy.deciding import PolicyEngine
from headgate.stores.memory import MemoryDisk
from tests.engine.conftest import FaultyStore, disk_full
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.server.world import World

METRICS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_one_look_shows_everything(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client, [{"units": 3, "priority": "high"}, {}])
        claim(client)
        status = client.get("/v2/status").json()
        assert status["ready"] is True
        assert status["jobs"]["leased"] == 1
        assert status["ready_by_class"]["normal"] == 1
        assert status["workers"] == {"busy": 1}
        capacity = client.get("/v2/capacity").json()
        assert (capacity["leased_units"], capacity["free_units"], capacity["busy"]) == (3, 997, 0)
        assert status["capacity"] == capacity
        assert status["policy"]["deciding"] == "built-in"


def test_samples_of_load_close_the_gate(make_world: MakeWorld) -> None:
    world = make_world(core={"fixed_busy": None, "required_sources": ()})
    with world.client() as client:
        rating = client.post("/v2/load", json={"source": "api", "latency_s": 2.0, "error": False}).json()["busy"]
        assert rating == 10
        assert client.get("/v2/capacity").json()["usable_units"] == 0
        assert client.get("/v2/capacity").json()["signals"]["api_latency"] == 10
        totals = {"source": "totals", "in_flight": 500, "error_rate": 0.01}
        assert client.post("/v2/load", json=totals).status_code == 200


@pytest.mark.parametrize(
    "sample",
    [{}, {"source": "", "error": True}, {"source": "host", "error": True}, {"latency_s": -1}, {"in_flight": 10**10}],
)
def test_a_sample_that_says_nothing_is_refused(world: World, sample: dict[str, object]) -> None:
    with world.client() as client:
        problem(client.post("/v2/load", json=sample), 400, "invalid_input")


def test_a_store_that_cannot_commit_is_not_ready(make_world: MakeWorld) -> None:
    store = FaultyStore(MemoryDisk())
    world = make_world(store=store)
    with world.client() as client:
        job_id = submit(client, name="before")["id"]
        assert client.get("/readyz").json() == {"ok": True, "problem": ""}
        store.fail_write = disk_full()
        answer = client.post("/v2/jobs", json={})
        problem(answer, 507, "commit_failed")
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert client.get(f"/v2/jobs/{job_id}").json()["name"] == "before"
        assert client.get("/v2/status").json()["ready"] is False
        assert client.post("/v2/jobs", json={}).status_code in (503, 507)
        assert "headgate_ready 0.0" in client.get("/metrics").text
        store.fail_write = None
        world.run(world.engine.recovered())
        assert client.get("/readyz").status_code == 200
        assert client.post("/v2/jobs", json={}).status_code == 201


def test_a_failed_sync_is_not_acknowledged(make_world: MakeWorld) -> None:
    store = FaultyStore(MemoryDisk())
    world = make_world(store=store)
    with world.client() as client:
        store.fail_seal = OSError(5, "input/output error")
        answer = client.post("/v2/jobs", json={"name": "lost"})
        assert answer.status_code == 503
        store.fail_seal = None
        world.run(world.engine.recovered())
        assert client.get("/v2/jobs").json()["jobs"] == []


def test_metrics_count_what_happened(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client, [{"priority": "high"}, {}])
        lease = claim(client)["lease"]
        word(client, lease, "start")
        word(client, lease, "complete")
        text = client.get("/metrics").text
        for line in (
            'headgate_jobs_total{event="submitted"} 2.0',
            'headgate_jobs_total{event="completed"} 1.0',
            'headgate_wait_seconds_count{class="high"} 1.0',
            'headgate_queue_ready{class="normal"} 1.0',
            "headgate_lease_seconds_count 1.0",
            'headgate_http_requests_total{call="submit",status="201"} 1.0',
            'headgate_capacity_units{kind="total"} 1000.0',
            "headgate_leases 0.0",
        ):
            assert line in text, line


def test_every_metric_is_documented_and_no_other(make_world: MakeWorld) -> None:
    world = make_world(policy=PolicyEngine())
    with world.client() as client:
        families = list(text_string_to_metric_families(client.get("/metrics").text))
    served = {family.name: family for family in families if not family.name.endswith("_created")}
    rows = re.findall(r"^\| `(headgate_\w+)` \| (\w+) \|([^|]*)\|", METRICS_PAGE.read_text("utf-8"), re.MULTILINE)
    documented = {name.removesuffix("_total"): kind for name, kind, _ in rows}
    assert documented == {name: family.type for name, family in served.items()}
    labels = {name.removesuffix("_total"): set(re.findall(r"\w+", text)) for name, _, text in rows}
    for name, family in served.items():
        for sample in family.samples:
            assert set(sample.labels) - {"le"} <= labels[name], name


# -- expected starts ----------------------------------------------------------------------------------------------


def test_a_waiting_job_has_an_expected_start_and_its_accuracy_shows(make_world: MakeWorld) -> None:
    world = make_world(core={"total_units": 1})
    with world.client() as client:
        register(client)
        first, second = (submit(client)["id"] for _ in range(2))
        lease = claim(client)["lease"]
        word(client, lease, "start")
        world.wait_for(lambda state: second in state.predictor._stated)  # type: ignore[union-attr]
        now = client.get("/v2/status").json()["now"]
        expected = client.get(f"/v2/jobs/{second}/explain").json()["expected_start"]
        assert now - 60 <= expected["low"] <= expected["start"] <= expected["high"]
        assert expected["learned_from"] <= 1, "the first may have been bet upon before it was claimed"
        assert "expected_start" not in client.get(f"/v2/jobs/{first}/explain").json(), "it runs already"
        word(client, lease, "complete")
        assert "expected_start" not in client.get(f"/v2/jobs/{first}/explain").json(), "it has ended"
        assert claim(client)["lease"]["job_id"] == second
        found = client.get("/v2/status").json()["predictions"]
        assert found["stated"] >= found["started"] >= 1
        assert found["started"] == found["inside"] + found["before"] + found["after"]
        assert found["share_inside"] == found["inside"] / found["started"]
        text = client.get("/metrics").text
        counts = re.findall(r'^headgate_predictions_total\{start="(\w+)"\} (\S+)$', text, re.MULTILINE)
        assert {name: float(count) for name, count in counts} == {
            name: float(found[name]) for name in ("inside", "before", "after")
        }


def test_a_job_that_nothing_can_run_is_promised_nothing(world: World) -> None:
    with world.client() as client:
        register(client)
        stuck = submit(client, resources={"gpu": 1})["id"]
        found = client.get(f"/v2/jobs/{stuck}/explain").json()
        assert found["reasons"][0]["code"] == "no_fitting_worker"
        assert "expected_start" not in found
