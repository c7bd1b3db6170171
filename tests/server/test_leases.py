"""Claiming leases by calls, and every word on them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.world import World


def register(client: httpx.Client, name: str = "w", **fields: Any) -> dict[str, Any]:
    answer = client.post("/v2/workers", json={"id": name, **fields})
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def claim(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v2/leases", json={"worker_id": "w", **fields})
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    assert (answer.status_code == 201) == ("lease" in found)
    return found


def word(client: httpx.Client, lease: dict[str, Any], verb: str, **fields: Any) -> httpx.Response:
    return client.post(f"/v2/leases/{lease['lease_id']}/{verb}", json={"token": lease["token"], **fields})


def test_a_job_runs_through_the_calls(world: World) -> None:
    with world.client() as client:
        register(client)
        job_id = submit(client, payload={"n": 1})["id"]
        found = claim(client)
        lease = found["lease"]
        assert (found["job"]["id"], found["job"]["payload"]) == (job_id, {"n": 1})
        assert (lease["worker_id"], lease["attempt"], lease["capacity_units"]) == ("w", 1, 1)
        assert word(client, lease, "start").status_code == 200
        assert word(client, lease, "start").status_code == 200
        assert word(client, lease, "heartbeat").json()["expires_at"] >= lease["expires_at"]
        assert word(client, lease, "progress", fraction=0.5, note="half", log="a\n").status_code == 200
        done = word(client, lease, "complete", result={"ok": True}, log="b\n")
        assert done.json() == {"lease_id": lease["lease_id"], "settled": "complete"}
        job = client.get(f"/v2/jobs/{job_id}").json()
        assert (job["state"], job["result"], job["worker_id"]) == ("completed", {"ok": True}, "w")
        logs = client.get(f"/v2/jobs/{job_id}/logs").json()["logs"]
        assert [entry["text"] for entry in logs] == ["a\n", "b\n"]
        later = client.get(f"/v2/jobs/{job_id}/logs", params={"after": logs[0]["number"]}).json()["logs"]
        assert [entry["text"] for entry in later] == ["b\n"]


def test_the_same_outcome_twice_is_fine_and_another_is_not(world: World) -> None:
    with world.client() as client:
        register(client)
        job_id = submit(client)["id"]
        lease = claim(client)["lease"]
        word(client, lease, "start")
        assert word(client, lease, "complete", result=[1], log="once").status_code == 200
        assert word(client, lease, "complete", result=[1], log="once").status_code == 200
        problem(word(client, lease, "complete", result=[2]), 409, "outcome_conflict")
        problem(word(client, lease, "fail", error={"code": "x"}), 409, "outcome_conflict")
        assert len(client.get(f"/v2/jobs/{job_id}/logs").json()["logs"]) == 1


def test_a_stale_token_changes_nothing(world: World) -> None:
    with world.client() as client:
        register(client)
        job_id = submit(client)["id"]
        lease = claim(client)["lease"]
        wrong = {**lease, "token": lease["token"] + 1}
        for verb in ("start", "heartbeat", "progress", "complete", "release"):
            problem(word(client, wrong, verb), 409, "stale_lease")
        problem(word(client, wrong, "fail", error={"code": "x"}), 409, "stale_lease")
        problem(word(client, {**lease, "lease_id": "9-9"}, "heartbeat"), 409, "stale_lease")
        assert client.get(f"/v2/jobs/{job_id}").json()["state"] == "leased"


def test_a_word_after_the_lease_expired_is_stale(make_world: MakeWorld) -> None:
    world = make_world(core={"lease_ttl": 50})
    with world.client() as client:
        register(client)
        job_id = submit(client)["id"]
        lease = claim(client)["lease"]
        world.wait_for(lambda state: not state.leases)
        problem(word(client, lease, "start"), 409, "stale_lease")
        problem(word(client, lease, "complete"), 409, "stale_lease")
        assert client.get(f"/v2/jobs/{job_id}").json()["state"] == "expired"


def test_a_failed_attempt_is_tried_again_where_the_job_allows(world: World) -> None:
    with world.client() as client:
        register(client)
        job_id = submit(client, retry={"attempts": 2, "initial": 0})["id"]
        first = claim(client)["lease"]
        word(client, first, "start")
        failed = word(client, first, "fail", error={"code": "boom", "message": "x", "traceback": "t"}, log="l")
        assert failed.status_code == 200
        second = claim(client, wait_s=10)["lease"]
        assert second["attempt"] == 2
        word(client, second, "start")
        word(client, second, "fail", error={"code": "boom"}, retry=False)
        job = client.get(f"/v2/jobs/{job_id}").json()
        assert (job["state"], job["error"]["code"]) == ("failed", "boom")


def test_a_released_lease_goes_to_the_next_claim(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client)
        first = claim(client)["lease"]
        assert word(client, first, "release").json()["settled"] == "release"
        assert word(client, first, "release").status_code == 200
        second = claim(client)["lease"]
        assert second["attempt"] == 1
        assert second["token"] > first["token"]


def test_a_claim_waits_for_work(world: World) -> None:
    with world.client() as client, world.client() as other, ThreadPoolExecutor(1) as pool:
        register(client)
        waiting = pool.submit(claim, other, wait_s=15)
        world.wait_for(lambda state: state.workers["w"].claims == 1)
        job_id = submit(client)["id"]
        assert waiting.result()["job"]["id"] == job_id
        assert world.read(lambda state: state.workers["w"].claims) == 0


def test_claims_that_wait_each_get_a_lease_of_their_own(world: World) -> None:
    with world.client() as client, ThreadPoolExecutor(4) as pool:
        register(client, slots=4)
        with world.client() as a, world.client() as b, world.client() as c:
            waiting = [pool.submit(claim, each, wait_s=15) for each in (a, b, c)]
            world.wait_for(lambda state: state.workers["w"].claims == 3)
            ids = submit(client, [{}, {}, {}, {}])["ids"]
            got = {found.result()["job"]["id"] for found in waiting}
        assert got == set(ids[:3])
        assert world.read(lambda state: len(state.leases)) == 3


def test_a_claim_that_gets_nothing_says_why(make_world: MakeWorld) -> None:
    world = make_world(core={"total_units": 5})
    with world.client() as client:
        register(client, slots=2)
        assert claim(client)["denied"]["code"] == "no_work"
        submit(client, units=5)
        lease = claim(client)["lease"]
        submit(client, units=1)
        denied = claim(client)["denied"]
        assert denied["code"] == "no_capacity"
        assert denied["retry_after_ms"] > 0
        word(client, lease, "release")
        client.post("/v2/workers/w/drain")
        assert claim(client)["denied"]["code"] == "worker_unfit"
        assert world.read(lambda state: state.workers["w"].claims) == 0


def test_a_machine_that_nobody_measures_grants_nothing(make_world: MakeWorld) -> None:
    world = make_world(core={"fixed_busy": None})
    with world.client() as client:
        register(client)
        submit(client)
        assert claim(client)["denied"]["code"] == "busy_gate"


def test_a_worker_that_is_not_known_cannot_claim(world: World) -> None:
    with world.client() as client:
        problem(client.post("/v2/leases", json={"worker_id": "nobody"}), 404, "worker_not_found")
        register(client, pull=False)
        problem(client.post("/v2/leases", json={"worker_id": "w"}), 409, "conflict")
        problem(client.post("/v2/leases", json={}), 400, "invalid_input")


def test_a_job_larger_than_wanted_is_not_kept(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client, units=10)
        assert claim(client, max_units=5)["denied"]["code"] == "too_large"
        assert world.read(lambda state: len(state.leases)) == 0
        assert claim(client, max_units=10)["lease"]["attempt"] == 1


def test_a_client_that_hangs_up_leaves_no_claim_behind(world: World) -> None:
    with world.client() as client:
        register(client)
        body = b'{"worker_id":"w","wait_s":30}'
        with world.raw("POST", "/v2/leases", f"Content-Length: {len(body)}") as raw:
            raw.sendall(body)
            world.wait_for(lambda state: state.workers["w"].claims == 1)
        world.wait_for(lambda state: state.workers["w"].claims == 0)
        submit(client)
        assert world.read(lambda state: len(state.leases)) == 0


def test_a_server_that_goes_down_answers_those_who_wait(make_world: MakeWorld) -> None:
    world = make_world()
    with world.client() as client, world.client() as other, ThreadPoolExecutor(1) as pool:
        register(client)
        waiting = pool.submit(claim, other, wait_s=30)
        world.wait_for(lambda state: state.workers["w"].claims == 1)
        world.stop()
        assert waiting.result()["denied"]["code"] == "no_work"


def test_the_submitter_of_an_external_job_holds_its_lease(world: World) -> None:
    with world.client() as client:
        job_id = submit(client, run={"kind": "external"})["id"]
        first = claim(client, job_id=job_id, wait_s=5)["lease"]
        again = claim(client, job_id=job_id)["lease"]
        assert first["lease_id"] == again["lease_id"]
        assert "worker_id" not in first or first["worker_id"] is None
        word(client, first, "start")
        problem(client.post("/v2/leases", json={"worker_id": "w", "job_id": job_id}), 409, "conflict")
        word(client, first, "complete")
        problem(client.post("/v2/leases", json={"worker_id": "w", "job_id": job_id}), 409, "conflict")


def test_an_external_job_waits_for_room(make_world: MakeWorld) -> None:
    world = make_world(core={"total_units": 10})
    with world.client() as client, world.client() as other, ThreadPoolExecutor(1) as pool:
        first = submit(client, run={"kind": "external"}, units=10)["id"]
        lease = claim(client, job_id=first, wait_s=5)["lease"]
        second = submit(client, run={"kind": "external"}, units=10)["id"]
        assert claim(client, job_id=second)["denied"]["code"] == "no_capacity"
        waiting = pool.submit(claim, other, job_id=second, wait_s=15)
        word(client, lease, "start")
        word(client, lease, "complete")
        assert waiting.result()["lease"]["job_id"] == second


def test_a_job_for_workers_cannot_be_claimed_by_its_id(world: World) -> None:
    with world.client() as client:
        job_id = submit(client)["id"]
        problem(client.post("/v2/leases", json={"worker_id": "w", "job_id": job_id}), 409, "conflict")
        problem(client.post("/v2/leases", json={"worker_id": "w", "job_id": "nobody"}), 404, "job_not_found")


def test_leases_are_listed_and_readers_see_no_tokens(world: World) -> None:
    with world.client() as client, world.client(world.token_for("read")) as reader:
        register(client, slots=2)
        first, second = submit(client, [{}, {}])["ids"]
        lease = claim(client)["lease"]
        claim(client)
        listed = client.get("/v2/leases").json()["leases"]
        assert {found["job_id"] for found in listed} == {first, second}
        assert lease["token"] in {found["token"] for found in listed}
        assert {found["token"] for found in reader.get("/v2/leases").json()["leases"]} == {0}
        only = client.get("/v2/leases", params={"job_id": first}).json()["leases"]
        assert [found["job_id"] for found in only] == [first]
        assert client.get("/v2/leases", params={"worker_id": "x"}).json()["leases"] == []


def test_what_is_not_a_word_is_refused(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client)
        lease = claim(client)["lease"]
        word(client, lease, "start")
        for verb, body in (
            ("complete", {"token": "x"}),
            ("complete", {}),
            ("fail", {"token": lease["token"]}),
            ("progress", {"token": lease["token"], "fraction": 2}),
            ("heartbeat", {"token": lease["token"], "more": 1}),
        ):
            problem(client.post(f"/v2/leases/{lease['lease_id']}/{verb}", json=body), 400, "invalid_input")
        problem(client.post(f"/v2/leases/{lease['lease_id']}/explode", json={}), 404, "no_route")
