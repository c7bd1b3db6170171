"""Calls on jobs, through a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from headgate.core.states import JobState
from tests.server.conftest import MakeWorld
from tests.server.world import World


def submit(client: httpx.Client, *args: Any, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v2/jobs", json=args[0] if args else fields)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert (found["status"], found["code"]) == (status, code)
    return found


def test_a_submitted_job_comes_back_whole(world: World) -> None:
    with world.client() as client:
        job = submit(client, name="a", payload={"x": [1, 2]}, units=3, priority=5, labels={"team": "x"}, retry=3)
        assert job["ids"] == [job["id"]]
        assert job["created"] == [True]
        again = client.get(f"/v2/jobs/{job['id']}").json()
        assert again["payload"] == {"x": [1, 2]}
        assert (again["class"], again["priority"], again["units"], again["state"]) == ("high", "highest", 3, "queued")
        assert again["labels"] == {"team": "x"}
        assert again["retry"]["attempts"] == 3
        assert again["run"] == {"kind": "python"}


def test_what_a_worker_runs_comes_back_as_it_was_written(world: World) -> None:
    run = {"kind": "command", "argv": ["echo", "hi"], "env": {"A": "1"}, "cwd": "/tmp"}
    with world.client() as client:
        assert submit(client, run=run)["run"] == run


def test_the_first_wrong_field_is_named(world: World) -> None:
    with world.client() as client:
        found = problem(client.post("/v2/jobs", json={"prioritty": "high"}), 400, "invalid_job")
        assert found["field"] == "prioritty"
        assert "did you mean 'priority'" in found["detail"]
        assert problem(client.post("/v2/jobs", json={"units": -1}), 400, "invalid_job")["field"] == "units"
        assert problem(client.post("/v2/jobs", json="x"), 400, "invalid_job")["detail"]


def test_a_job_that_can_never_start_is_taken_and_it_is_said(make_world: MakeWorld) -> None:
    with make_world(core={"total_units": 100}).client() as client:
        one = submit(client, units=1_000)
        assert one["warnings"] == [
            f"{one['id']} needs 1000 units and there are 100 in all: it can never start unless units are added"
        ]
        many = submit(client, [{"units": 1}, {"units": 101}, {"units": 101}])
        assert [text.split()[:3] for text in many["warnings"]] == [[many["ids"][1], "needs", "101"]]
        assert "warnings" not in submit(client)
        explained = client.get(f"/v2/jobs/{one['id']}/explain").json()
        assert explained["reasons"][0]["code"] == "never_starts"


def test_words_that_a_query_does_not_take_are_answered_with_those_it_does(world: World) -> None:
    with world.client() as client:
        found = problem(client.get("/v2/jobs", params={"state": "queued,foo"}), 400, "invalid_input")
        assert found["field"] == "state"
        assert "'foo'] is not among blocked, queued, leased, running, completed, failed" in found["detail"]
        found = problem(client.get("/v2/jobs", params={"order": "up"}), 400, "invalid_input")
        assert found["detail"] == "order: 'up' is not among newest, oldest"


def test_an_array_is_taken_whole_or_not_at_all(world: World) -> None:
    with world.client() as client:
        answer = submit(client, [{"name": "a"}, {"name": "b"}])
        assert len(set(answer["ids"])) == 2
        assert answer["created"] == [True, True]
        found = problem(client.post("/v2/jobs", json=[{"name": "c"}, {"units": "x"}]), 400, "invalid_job")
        assert found["field"] == "[1].units"
        assert found["extra"]["index"] == 1
        names = {job["name"] for job in client.get("/v2/jobs").json()["jobs"]}
        assert names == {"a", "b"}
        assert submit(client, [])["ids"] == []


def test_jobs_of_an_array_can_depend_on_each_other(world: World) -> None:
    with world.client() as client:
        jobs = [{"name": "last", "dependencies": ["#1", "#2"]}, {"name": "one"}, {"name": "two"}]
        last, one, two = submit(client, jobs)["ids"]
        job = client.get(f"/v2/jobs/{last}").json()
        assert job["state"] == "blocked"
        assert job["dependencies"] == [one, two]
        for name in ("#3", "#x", "#", "nobody"):
            problem(client.post("/v2/jobs", json=[{"dependencies": [name]}]), 400, "unknown_dependency")
        circle = [{"dependencies": ["#1"]}, {"dependencies": ["#0"]}]
        problem(client.post("/v2/jobs", json=circle), 400, "dependency_cycle")


def test_the_same_key_and_body_is_the_same_job(world: World) -> None:
    with world.client() as client:
        key = {"Idempotency-Key": "k-1"}
        first = client.post("/v2/jobs", json={"name": "a"}, headers=key)
        second = client.post("/v2/jobs", json={"name": "a"}, headers=key)
        assert first.status_code == second.status_code == 201
        assert first.json()["id"] == second.json()["id"]
        assert second.json()["created"] == [False]
        assert "idempotency-replayed" not in first.headers
        assert second.headers["idempotency-replayed"] == "true"
        problem(client.post("/v2/jobs", json={"name": "b"}, headers=key), 409, "idempotency_conflict")
        problem(client.post("/v2/jobs", json={}, headers={"Idempotency-Key": "x" * 201}), 400, "invalid_input")
        other = client.post("/v2/jobs", json={"idempotency_key": "z"}, headers=key)
        problem(other, 400, "invalid_job")
        assert len(client.get("/v2/jobs").json()["jobs"]) == 1


def test_an_array_under_a_key_is_repeated_as_a_whole(world: World) -> None:
    with world.client() as client:
        key = {"Idempotency-Key": "k"}
        jobs: list[dict[str, Any]] = [{"name": "a"}, {"name": "b", "dependencies": ["#0"]}]
        first = client.post("/v2/jobs", json=jobs, headers=key).json()
        second = client.post("/v2/jobs", json=jobs, headers=key).json()
        assert first["ids"] == second["ids"]
        assert second["created"] == [False, False]
        for other in (jobs[:1], [*jobs, {"name": "c"}]):
            problem(client.post("/v2/jobs", json=other, headers=key), 409, "idempotency_conflict")
        assert len(client.get("/v2/jobs").json()["jobs"]) == 2


def test_a_full_queue_says_when_to_try_again(make_world: MakeWorld) -> None:
    world = make_world(core={"max_queue_depth": 2})
    with world.client() as client:
        submit(client, [{}, {}])
        answer = client.post("/v2/jobs", json={})
        found = problem(answer, 429, "queue_full")
        assert answer.headers["retry-after"] == "1"
        assert found["retry_after_ms"] == 1_000
        client.put("/v2/tenants/lab", json={"max_queued": 0})
        problem(client.post("/v2/jobs", json={"tenant": "lab"}), 429, "queue_full")


def test_a_quota_says_when_to_try_again(world: World) -> None:
    with world.client() as client:
        client.put("/v2/tenants/lab", json={"max_queued": 0})
        answer = client.post("/v2/jobs", json={"tenant": "lab"})
        problem(answer, 429, "quota_exceeded")
        assert answer.headers["retry-after"] == "1"


def test_jobs_are_listed_page_by_page(world: World) -> None:
    with world.client() as client:
        submit(client, [{"name": f"j{n}"} for n in range(25)])
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = client.get("/v2/jobs", params={"limit": 10, **({"after": cursor} if cursor else {})}).json()
            seen += [job["name"] for job in page["jobs"]]
            cursor = page.get("next")
            if cursor is None:
                break
        assert seen == [f"j{n}" for n in range(24, -1, -1)]
        oldest = client.get("/v2/jobs", params={"order": "oldest", "limit": 3}).json()["jobs"]
        assert [job["name"] for job in oldest] == ["j0", "j1", "j2"]


def test_jobs_are_listed_by_what_they_are(world: World) -> None:
    with world.client() as client:
        submit(client, [{"name": "a", "priority": "high"}, {"name": "ab", "type": "t", "tenant": "lab"}, {"name": "c"}])
        cancelled = submit(client, name="gone")["id"]
        client.post(f"/v2/jobs/{cancelled}/cancel")

        def names(**params: Any) -> list[str]:
            return sorted(job["name"] for job in client.get("/v2/jobs", params=params).json()["jobs"])

        assert names(**{"class": "high"}) == ["a"]
        assert names(tenant="lab") == names(type="t") == ["ab"]
        assert names(name="a") == ["a", "ab"]
        assert names(state="queued") == ["a", "ab", "c"]
        assert names(state="queued,cancelled") == ["a", "ab", "c", "gone"]
        assert names(created_to=1) == []
        assert names(name="' OR 1=1 --") == names(tenant="x' OR 'a'='a") == names(name="%") == []


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=1001", "limit=x", "order=up", "state=sleeping", "after=-1", "sort=name", "limit=1&limit=2"),
        *("created_from=nan", "created_from=1e400", "name=%00", "after=99999999999999999999", "class=1;drop"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(world: World, query: str) -> None:
    with world.client() as client:
        problem(client.get(f"/v2/jobs?{query}"), 400, "invalid_input")


def test_what_happened_to_everything_can_be_read_by_time(world: World) -> None:
    with world.client() as client:
        ids = [submit(client, name=name)["id"] for name in ("a", "b")]
        client.post(f"/v2/jobs/{ids[0]}/cancel", json={"reason": "not needed"})
        query: dict[str, Any] = {"type": "job-submitted,job-cancelled", "limit": 2}
        first = client.get("/v2/events", params=query).json()
        rest = client.get("/v2/events", params={**query, "after": first["next"]}).json()
        told = [(event["type"], event["job_id"]) for event in first["events"] + rest["events"]]
        assert told == [("job-submitted", ids[0]), ("job-submitted", ids[1]), ("job-cancelled", ids[0])]
        last = rest["events"][-1]["at"]
        assert client.get("/v2/events", params={"since": last + 1}).json() == {"events": []}
        before = client.get("/v2/events", params={**query, "until": first["events"][0]["at"]}).json()["events"]
        assert before == []
        problem(client.get("/v2/events?since=soon"), 400, "invalid_input")
    with world.client(world.token_for("read", tenant="a")) as bound:
        assert bound.get("/v2/events").status_code == 403


def test_what_is_old_is_deleted_on_demand(world: World) -> None:
    with world.client() as client:
        gone, stays = (submit(client, name=name)["id"] for name in ("gone", "stays"))
        client.post(f"/v2/jobs/{gone}/cancel", json={})
        deleted = 0
        while not deleted:  # until the clock has moved on from the end of the job
            deleted = client.post("/v2/admin/compact", json={"jobs": "0s", "events": 0}).json()["jobs"]
        assert deleted == 1
        assert client.get(f"/v2/jobs/{gone}").status_code == 404
        assert client.get(f"/v2/jobs/{stays}").status_code == 200
        problem(client.post("/v2/admin/compact", json={"jobs": "soon"}), 400, "invalid_input")
        problem(client.post("/v2/admin/compact", json={"job": "1d"}), 400, "invalid_input")
    with world.client(world.token_for("read")) as reader:
        problem(reader.post("/v2/admin/compact", json={}), 403, "forbidden")


def test_what_happened_to_a_job_can_be_read(world: World) -> None:
    with world.client() as client:
        job_id = submit(client, name="a")["id"]
        client.post(f"/v2/jobs/{job_id}/cancel", json={"reason": "not needed"})

        async def indexed() -> None:
            world.engine.rounds.catch_up()

        world.run(indexed())
        events = client.get(f"/v2/jobs/{job_id}/events").json()["events"]
        assert [event["type"] for event in events] == ["job-submitted", "job-cancelled"]
        assert events[1]["data"] == {"reason": "not needed"}
        rest = client.get(f"/v2/jobs/{job_id}/events", params={"after": events[0]["number"]}).json()["events"]
        assert [event["type"] for event in rest] == ["job-cancelled"]
        first = client.get(f"/v2/jobs/{job_id}/events", params={"limit": 1}).json()
        assert first["next"] == events[0]["number"]


def test_a_waiting_job_says_why(world: World) -> None:
    with world.client() as client:
        job_id = submit(client, name="a")["id"]
        found = client.get(f"/v2/jobs/{job_id}/explain").json()
        assert found["state"] == "queued"
        assert found["reasons"][0]["code"] == "no_fitting_worker"
        assert found["reasons"][0]["detail"] == "there are no workers"
        problem(client.get("/v2/jobs/nobody/explain"), 404, "job_not_found")


def test_a_cancelled_job_stays_cancelled(world: World) -> None:
    with world.client() as client:
        job_id = submit(client)["id"]
        assert client.post(f"/v2/jobs/{job_id}/cancel", json={"reason": "x"}).json()["state"] == "cancelled"
        assert client.post(f"/v2/jobs/{job_id}/cancel").json()["state"] == "cancelled"
        problem(client.post("/v2/jobs/nobody/cancel"), 404, "job_not_found")
        problem(client.post(f"/v2/jobs/{job_id}/cancel", json={"why": "x"}), 400, "invalid_input")


def test_the_end_of_a_job_can_be_waited_for(world: World) -> None:
    with world.client() as client, world.client() as other, ThreadPoolExecutor(1) as pool:
        job_id = submit(client)["id"]
        assert client.get(f"/v2/jobs/{job_id}", params={"wait_s": 0.05}).json()["state"] == "queued"
        waiting = pool.submit(other.get, f"/v2/jobs/{job_id}", params={"wait_s": 15})
        client.post(f"/v2/jobs/{job_id}/cancel")
        assert waiting.result().json()["state"] == "cancelled"
        problem(client.get(f"/v2/jobs/{job_id}", params={"wait_s": -1}), 400, "invalid_input")


def test_a_job_that_has_ended_can_be_tried_again(world: World) -> None:
    with world.client() as client:
        first = submit(client, name="a", payload=[1], idempotency_key="k")["id"]
        problem(client.post(f"/v2/jobs/{first}/retry"), 409, "illegal_transition")
        client.post(f"/v2/jobs/{first}/cancel")
        answer = client.post(f"/v2/jobs/{first}/retry")
        assert answer.status_code == 201
        job = answer.json()
        assert (job["retry_of"], job["payload"], job["state"]) == (first, [1], "queued")
        assert job["id"] != first
        assert client.get(f"/v2/jobs/{job['id']}").json()["retry_of"] == first


def test_a_job_that_has_not_started_can_be_changed(world: World) -> None:
    with world.client() as client:
        job_id = submit(client, name="a", not_before=4_000_000_000)["id"]
        changed = client.patch(f"/v2/jobs/{job_id}", json={"priority": 5, "rank": 7, "labels": {"a": "b"}}).json()
        assert (changed["class"], changed["rank"], changed["labels"]) == ("high", 7, {"a": "b"})
        assert changed["not_before"] == 4_000_000_000
        assert "not_before" not in client.patch(f"/v2/jobs/{job_id}", json={"not_before": None}).json()
        later = client.patch(f"/v2/jobs/{job_id}", json={"not_before": "2099-01-01T00:00:00Z"}).json()
        assert later["not_before"] == 4_070_908_800
        assert world.read(lambda state: state.jobs[job_id].state) is JobState.QUEUED
        for bad in ({"priority": "top"}, {"rank": 2**40}, {"labels": {"": "x"}}, {"not_before": "soon"}):
            problem(client.patch(f"/v2/jobs/{job_id}", json=bad), 400, "invalid_job")
        problem(client.patch(f"/v2/jobs/{job_id}", json={"payload": 1}), 400, "invalid_input")
        client.post(f"/v2/jobs/{job_id}/cancel")
        problem(client.patch(f"/v2/jobs/{job_id}", json={"rank": 1}), 409, "illegal_transition")
