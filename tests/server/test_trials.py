"""Experiments through the API: start, look, stop, and who may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.policy.arms import ExperimentingEngine
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register
from tests.server.world import World

BASE = "/v2/admin/scheduler"
LAST_FIRST = "-- policy: last-first\nfunction schedule(c) return platform.schedule(c) end"


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("lab"), policy=ExperimentingEngine()).start()
    yield world
    world.stop()


def test_an_experiment_is_started_watched_and_stopped(lab: World) -> None:
    with lab.client() as client:
        problem(client.get(f"{BASE}/experiments/current"), 404, "experiment_not_found")
        body = {"b": {"name": "last-first", "source": LAST_FIRST}, "window": "1s", "why": "try"}
        answer = client.post(f"{BASE}/experiments", json=body)
        assert answer.status_code == 201, answer.text
        started = answer.json()
        assert (started["running"], started["a"], started["split"]) == (True, "platform", "time")
        problem(client.post(f"{BASE}/experiments", json=body), 409, "experiment_running")
        register(client, slots=2)
        job = submit(client)["id"]
        assert claim(client, wait_s=10)["lease"]["job_id"] == job
        decisions = client.get("/v2/admin/decisions").json()["decisions"]
        assert decisions[-1]["arm"].startswith(started["id"] + "/")
        shown = client.get(f"{BASE}/experiments/current").json()
        assert shown["results"]["a"]["version"] == "platform"
        assert "wait" not in shown["results"], "there are too few blocks"
        assert client.get("/v2/status").json()["policy"]["deciding"].startswith(f"experiment {started['id']}")
        stopped = client.post(f"{BASE}/experiments/{started['id']}/stop", json={"keep": "b", "why": "done"}).json()
        assert (stopped["running"], stopped["ended_why"]) == (False, "done")
        assert client.get(f"{BASE}/versions").json()["active"] == started["b"]
        (listed,) = client.get(f"{BASE}/experiments").json()["experiments"]
        assert listed["id"] == started["id"]


def test_what_is_no_experiment_is_refused_and_only_some_may_start_one(lab: World) -> None:
    path = f"{BASE}/experiments"
    with lab.client() as client:
        same = {"b": {"name": "platform"}}
        assert problem(client.post(path, json=same), 400, "invalid_input")["field"] == "b"
        tenants = {"b": {"name": "fcfs"}, "split": "tenant"}
        assert problem(client.post(path, json=tenants), 400, "invalid_input")["field"] == "split"
        broken = {"b": {"name": "x", "source": "function schedule("}}
        assert problem(client.post(path, json=broken), 400, "invalid_policy")["extra"]["diagnostics"][0]["line"] == 1
        problem(client.post(path, json={"b": {"name": "nobody"}}), 404, "policy_not_found")
        problem(client.post(path, json={"b": {"name": "fcfs"}, "window": "long"}), 400, "invalid_input")
    with lab.client(lab.token_for("policy:edit")) as client:
        problem(client.post(path, json={"b": {"name": "fcfs"}}), 403, "forbidden")
        assert client.get(path).status_code == 200
