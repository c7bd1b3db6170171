"""Calls on jobs."""

from __future__ import annotations

from tests.server.world import World


def test_a_submitted_job_comes_back_whole(world: World) -> None:
    with world.client() as client:
        answer = client.post("/v2/jobs", json={"name": "a", "payload": {"x": [1, 2]}, "units": 3, "priority": 5})
        assert answer.status_code == 201, answer.text
        job = answer.json()
        assert job["ids"] == [job["id"]]
        again = client.get(f"/v2/jobs/{job['id']}").json()
        assert again["payload"] == {"x": [1, 2]}
        assert (again["class"], again["priority"], again["units"], again["state"]) == ("high", "highest", 3, "queued")
        for path in (
            "/",
            "/docs",
            "/openapi.json",
            "/healthz",
            "/readyz",
            "/metrics",
            "/v2/status",
            "/v2/capacity",
            "/v2/workers",
            "/v2/pools",
            "/v2/tenants",
            "/v2/leases",
            "/v2/models",
            "/v2/jobs",
            f"/v2/jobs/{job['id']}/events",
            f"/v2/jobs/{job['id']}/explain",
            f"/v2/jobs/{job['id']}/logs",
            "/v2/admin/tokens",
            "/v2/admin/audit",
        ):
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
