"""Policies through the API: check, deploy, move, look at decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.policy.deciding import PolicyEngine
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register
from tests.server.world import World

BASE = "/v2/admin/scheduler"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("lab"), policy=PolicyEngine()).start()
    yield world
    world.stop()


def template(world: World) -> dict[str, Any]:
    with world.client() as client:
        found = client.get(f"{BASE}/templates").json()["templates"]
        return next(dict(each) for each in found if each["language"] == "yaml")


def test_templates_and_the_platform_policy_can_be_read(lab: World) -> None:
    with lab.client() as client:
        templates = client.get(f"{BASE}/templates").json()["templates"]
        assert {"platform-clone"} <= {each["name"] for each in templates}
        assert all(each["purpose"] and each["source"] for each in templates)
        platform = client.get(f"{BASE}/platform-source").json()
        assert platform["language"] == "lua"
        assert platform["version"] in platform["source"]


def test_a_broken_policy_is_described_by_line_and_column(lab: World) -> None:
    with lab.client() as client:
        found = client.post(f"{BASE}/validate", json={"language": "lua", "source": "function schedule(\n"}).json()
        assert found["ok"] is False
        assert found["diagnostics"][0]["line"] >= 1
        broken = {"language": "lua", "source": "function schedule("}
        refused = problem(client.post(f"{BASE}/deploy", json=broken), 400, "invalid_policy")
        assert refused["extra"]["diagnostics"]
        problem(client.post(f"{BASE}/validate", json={"language": "basic", "source": ""}), 400, "invalid_input")


def test_a_policy_is_deployed_decides_and_is_rolled_back(lab: World) -> None:
    chosen = template(lab)
    with lab.client() as client:
        body = {"language": "yaml", "source": chosen["source"], "why": "try it", "force": True, "base_version": None}
        answer = client.post(f"{BASE}/deploy", json=body)
        assert answer.status_code == 201, answer.text
        version = answer.json()["id"]
        problem(client.post(f"{BASE}/deploy", json=body), 409, "policy_moved")
        listed = client.get(f"{BASE}/versions").json()
        assert listed["active"] == version
        (found,) = listed["versions"]
        assert (found["status"], found["source"]) == ("active", chosen["source"])
        assert listed["moves"][-1]["why"] == "try it"
        assert "source" not in client.get(f"{BASE}/versions", params={"sources": False}).json()["versions"][0]
        assert client.get("/v2/status").json()["policy"]["active"] == version
        register(client)
        submit(client)
        assert "lease" in claim(client, wait_s=10)
        shadow = client.post(f"{BASE}/deploy", json={**body, "base_version": version, "mode": "shadow"})
        assert shadow.json()["status"] == "shadow"
        rolled = client.post(f"{BASE}/rollback", json={"why": "back"})
        assert rolled.json()["active"] is None
        assert client.post(f"{BASE}/enable").json()["active"] is None
        problem(client.post(f"{BASE}/rollback", json={"to": "nothing"}), 404, "policy_not_found")


def test_decisions_are_listed_shown_and_replayed(lab: World) -> None:
    with lab.client() as client:
        register(client, "d", slots=2)
        submit(client)
        assert "lease" in claim(client, worker_id="d", wait_s=10)
        found = client.get("/v2/admin/decisions", params={"limit": 1}).json()
        first = found["decisions"][0]
        following = client.get("/v2/admin/decisions", params={"after": first["id"]}).json()["decisions"]
        assert all(decision["id"] > first["id"] for decision in following)
        latest = [first, *following][-1]
        whole = client.get(f"/v2/admin/decisions/{latest['id']}").json()
        assert whole["question"]["now_ms"] > 0
        assert whole["told"]
        replayed = client.post(f"/v2/admin/decisions/{latest['id']}/replay")
        assert replayed.status_code == 200, replayed.text
        assert replayed.json()["same"] is True
        problem(client.get("/v2/admin/decisions/nothing"), 404, "decision_not_found")
        problem(client.post("/v2/admin/decisions/nothing/replay"), 404, "decision_not_found")
        for query in ("after=x", "since=-1", "until=nan", "limit=0"):
            problem(client.get(f"/v2/admin/decisions?{query}"), 400, "invalid_input")


def test_a_server_without_policies_says_so(world: World) -> None:
    with world.client() as client:
        problem(client.get(f"{BASE}/versions"), 503, "unavailable")


def test_a_shadow_is_held_against_what_decides(lab: World) -> None:
    never = "-- policy: never\nfunction schedule(c) return { action = 'wait' } end"
    with lab.client() as client:
        problem(client.get(f"{BASE}/shadow", params={"version": "nobody"}), 404, "policy_not_found")
        body = {"language": "lua", "source": never, "mode": "shadow", "force": True}
        version = client.post(f"{BASE}/deploy", json=body).json()["id"]
        register(client, "s", slots=2)
        job = submit(client)["id"]
        assert claim(client, worker_id="s", wait_s=10)["lease"]["job_id"] == job
        found = client.get(f"{BASE}/shadow").json()
        assert (found["version"], found["watching"]) == (version, True)
        assert found["agreement"] == found["agreed"] / found["asked"] < 1
        assert job in {action.get("job_id") for parting in found["recent"] for action in parting["actions"]}
        assert found["first"]["shadow_actions"] == [{"action": "wait"}]
