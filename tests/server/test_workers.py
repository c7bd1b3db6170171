"""Workers, pools, tenants and models."""

from __future__ import annotations

import pytest

from headgate.core import commands as c
from headgate.core.actions import StartWorker
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.server.world import World
from tests.up.house import until


def test_a_worker_joins_and_says_anew_what_it_is(world: World) -> None:
    with world.client() as client:
        first = client.post(
            "/v2/workers", json={"id": "w", "slots": 2, "resources": {"memory": "8GB"}, "labels": {"a": "b"}}
        )
        assert first.status_code == 201
        shown = first.json()
        assert (shown["status"], shown["slots_free"], shown["resources"]) == ("ready", 2, {"memory": 8e9})
        assert shown["labels"] == {"a": "b"}
        again = client.post("/v2/workers", json={"id": "w", "slots": 3})
        assert (again.status_code, again.json()["slots"]) == (200, 3)
        assert [worker["id"] for worker in client.get("/v2/workers").json()["workers"]] == ["w"]
        assert client.get("/v2/workers/w").json()["slots"] == 3
        problem(client.get("/v2/workers/nobody"), 404, "worker_not_found")


def test_what_a_worker_cannot_be_is_refused(world: World) -> None:
    with world.client() as client:
        for field, value in (
            ("id", ""),
            ("slots", 0),
            ("slots", "x"),
            ("resources", {"a": "much"}),
            ("labels", {"": "x"}),
        ):
            found = problem(client.post("/v2/workers", json={"id": "w", field: value}), 400, "invalid_input")
            assert found["field"].startswith(field)
        problem(client.post("/v2/workers", json={"id": "w", "slotz": 1}), 400, "invalid_input")


def test_a_draining_worker_gets_no_further_work(world: World) -> None:
    with world.client() as client:
        register(client)
        assert client.post("/v2/workers/w/drain", json={"reason": "update"}).json()["status"] == "draining"
        problem(client.post("/v2/workers/nobody/drain"), 404, "worker_not_found")


def test_a_drained_worker_is_given_work_again(world: World) -> None:
    with world.client() as client:
        register(client)
        client.post("/v2/workers/w/drain")
        submit(client)
        assert claim(client)["denied"]["code"] == "worker_unfit"
        assert client.post("/v2/workers/w/undrain", json={"reason": "updated"}).json()["status"] == "ready"
        assert client.post("/v2/workers/w/undrain").json()["status"] == "ready"
        assert claim(client)["lease"]["worker_id"] == "w"
        problem(client.post("/v2/workers/nobody/undrain"), 404, "worker_not_found")


@pytest.mark.parametrize("listens", [True, False])
def test_a_worker_is_undrained_to_where_it_hears_of_its_work(world: World, listens: bool) -> None:
    """Its stream came, or went, while it drained."""
    with world.client() as client:
        register(client, pull=listens)
        client.post("/v2/workers/w/drain")
        with world.socket("/v2/workers/w/stream") as talk:
            talk.say(type="beats", ref=1)
            talk.hear("beats-done")
            if listens:
                client.post("/v2/workers/w/undrain")
                submit(client)
                assert len(talk.hear("granted")["leases"]) == 1
                return
        until(lambda: not world.app.service.deliveries.listens("w"))
        client.post("/v2/workers/w/undrain")
        assert world.read(lambda state: state.worker("w").spec.pull)


def test_a_worker_leaves_with_nothing_in_hand_or_by_force(world: World) -> None:
    with world.client() as client:
        register(client)
        job_id = submit(client)["id"]
        lease = claim(client)["lease"]
        problem(client.delete("/v2/workers/w"), 409, "worker_busy")
        assert client.delete("/v2/workers/w", params={"force": True}).status_code == 204
        problem(word(client, lease, "start"), 409, "stale_lease")
        assert client.get(f"/v2/jobs/{job_id}").json()["state"] == "expired"
        problem(client.delete("/v2/workers/w"), 404, "worker_not_found")


def test_a_pool_reads_which_workers_it_is_asked_to_start(world: World) -> None:
    with world.client() as client:
        assert "wanted" not in client.put("/v2/pools/lab", json={"node": "lab-1"}).json()
        world.run(world.engine.do(c.Schedule((StartWorker("llama", "lab"),))))
        wanted = client.put("/v2/pools/lab", json={"node": "lab-1"}).json()["wanted"]
        assert wanted == [{"id": "lab/llama", "model_ref": "llama"}]
        register(client, "lab/llama", pool="lab", model_ref="llama")
        assert "wanted" not in client.get("/v2/pools/lab").json()


def test_a_pool_reports_its_machine(world: World) -> None:
    with world.client() as client:
        register(client, pool="gpu")
        gpu = {"id": "0", "vram_total": "24GB", "vram_allocated": "4GB", "utilization": 0.5}
        report = {"node": "n1", "busy": 2, "units": 50, "gpus": [gpu], "workers": ["w"], "resources": {"vram": "24GB"}}
        shown = client.put("/v2/pools/gpu", json=report).json()
        assert (shown["status"], shown["usable_units"], shown["workers"]) == ("online", 40, ["w"])
        assert shown["gpus"][0]["vram_free"] == 20e9
        assert [pool["id"] for pool in client.get("/v2/pools").json()["pools"]] == ["gpu"]
        assert client.get("/v2/pools/gpu").json()["node"] == "n1"
        problem(client.delete("/v2/pools/gpu"), 409, "conflict")
        client.delete("/v2/workers/w")
        assert client.delete("/v2/pools/gpu").status_code == 204
        problem(client.get("/v2/pools/gpu"), 404, "pool_not_found")
        problem(client.put("/v2/pools/p", json={"units": -1}), 400, "invalid_input")


def test_a_tenant_has_quotas_and_loses_them(world: World) -> None:
    with world.client() as client:
        spec = {"weight": 2, "max_units": 10, "max_resources": {"memory": "1GB", "gpu": 0}}
        shown = client.put("/v2/tenants/lab", json=spec).json()
        assert (shown["weight"], shown["max_units"], shown["declared"]) == (2, 10, True)
        assert shown["max_resources"] == {"memory": 1e9, "gpu": 0}
        submit(client, tenant="lab")
        assert client.get("/v2/tenants/lab").json()["queued"] == 1
        assert [tenant["id"] for tenant in client.get("/v2/tenants").json()["tenants"]] == ["lab"]
        assert client.delete("/v2/tenants/lab").status_code == 204
        assert "declared" not in client.get("/v2/tenants/lab").json()
        problem(client.get("/v2/tenants/nobody"), 404, "tenant_not_found")
        problem(client.put("/v2/tenants/lab", json={"weight": 0}), 400, "invalid_input")


def test_the_model_catalog_is_kept(world: World) -> None:
    with world.client() as client:
        client.put("/v2/models/llama", json={"vram": "16GB", "aliases": ["l"]})
        assert client.get("/v2/models/l").json() == {"id": "llama", "vram": 16_000_000_000, "aliases": ["l"]}
        assert len(client.get("/v2/models").json()["models"]) == 1
        assert client.delete("/v2/models/llama").status_code == 204
        problem(client.get("/v2/models/llama"), 404, "model_not_found")
