"""Simulations through the API: on a sample, the live state or an upload; watched, played, cancelled, limited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headgate.policy.deciding import PolicyEngine
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register
from tests.server.world import Talk, World

BASE = "/v2/admin/scheduler/simulate"
SLOW = """
function schedule(context)
  local n = 0
  for i = 1, 30000000 do n = n + math.sin(i) end
  return platform.schedule(context)
end
"""
"""A policy that takes its time: a simulation with it lasts until somebody ends it."""
ONE_AFTER_ANOTHER = "\n".join(f"{n} 0 -1 60 1 -1 -1 1 60 -1 1 1 1 1 1 -1 -1 -1" for n in range(1, 21))
"""Twenty jobs of a minute for one processor, all submitted at once."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("lab"), policy=PolicyEngine(), live_interval=0.01).start()
    yield world
    world.stop()


def ended(client: httpx.Client, run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{BASE}/runs/{run['id']}", params={"wait_s": 15}).json()
    assert found["state"] == "done", found
    return found


def begun(client: httpx.Client, **asked: Any) -> dict[str, Any]:
    answer = client.post(BASE, json=asked)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def upload(**changes: Any) -> dict[str, Any]:
    return {"kind": "upload", "text": ONE_AFTER_ANOTHER, "format": "swf", "processors": 1, **changes}


def test_a_dry_run_on_the_sample_answers_when_it_is_done(lab: World) -> None:
    with lab.client() as client:
        found = client.get(BASE, params={"jobs": 50, "against": "native:fcfs"}).json()
    assert (found["state"], found["progress"], found["jobs"]) == ("done", 1.0, 50)
    assert [side["policy"] for side in found["outcome"]["sides"]] == ["native:fcfs", "platform"]
    assert found["outcome"]["change"]["wait"]["low"] <= found["outcome"]["change"]["wait"]["mean"]


def test_a_draft_is_compared_on_an_uploaded_workload(lab: World) -> None:
    draft = {"name": "draft", "language": "lua", "source": "function schedule(c) return platform.schedule(c) end"}
    with lab.client() as client:
        run = begun(client, policy=draft, against={"name": "platform"}, workload=upload(name="mine"), frames=20)
        found = ended(client, run)
        outcome = found["outcome"]
        assert (outcome["workload"], outcome["jobs"]) == ("mine", 20)
        assert [side["policy"] for side in outcome["sides"]] == ["platform", "draft"]
        assert outcome["sides"][0]["mean_wait"] == pytest.approx(sum(60 * n for n in range(20)) / 20)
        assert (outcome["change"]["better"], outcome["change"]["worse"]) == (0, 0)
        assert "divergence" not in outcome["change"]
        frames = client.get(f"{BASE}/runs/{run['id']}/frames", params={"after": 1, "limit": 2}).json()["frames"]
        assert [frame["number"] for frame in frames] == [2, 3]
        listed = client.get(f"{BASE}/runs").json()
        assert run["id"] in {each["id"] for each in listed["runs"]}
        assert "outcome" not in listed["runs"][0]


def test_the_live_state_goes_on_in_the_simulation_and_not_in_the_server(lab: World) -> None:
    with lab.client() as client:
        register(client, "sim-w", slots=1)
        ids = [submit(client, name=f"j{n}", estimated_duration=30 * (5 - n))["id"] for n in range(5)]
        run = begun(client, policy={"name": "shortest-job-first"}, workload={"kind": "live", "arrivals": "none"})
        outcome = ended(client, run)["outcome"]
        assert outcome["jobs"] >= 5
        assert outcome["seconds"] == 3_600
        starts = {shift["job_id"]: shift for shift in outcome["change"]["shifts"]}
        assert starts[ids[4]]["after"] < starts[ids[4]]["before"]
        assert starts[ids[0]]["after"] > starts[ids[0]]["before"]
        assert (
            outcome["change"]["classes"]["normal"]["wait_after"] < outcome["change"]["classes"]["normal"]["wait_before"]
        )
        assert outcome["change"]["divergence"]["number"] == 1
        states = [client.get(f"/v2/jobs/{id_}").json()["state"] for id_ in ids]
        assert states == ["queued"] * 5, "the simulation started jobs of the server"
        for id_ in ids:
            client.post(f"/v2/jobs/{id_}/cancel")


def test_heartbeats_and_commits_go_on_while_a_simulation_runs(lab: World) -> None:
    with lab.client() as client:
        register(client, "busy", slots=1)
        submit(client, name="held")
        lease = claim(client, worker_id="busy", wait_s=10)["lease"]
        for n in range(20):
            submit(client, name=f"waits-{n}")
        run = begun(client, policy={"name": "slow", "source": SLOW}, workload={"kind": "live", "arrivals": "none"})
        for n in range(30):
            beat = client.post(f"/v2/leases/{lease['lease_id']}/heartbeat", json={"token": lease["token"]})
            assert beat.status_code == 200, beat.text
            submit(client, name=f"meanwhile-{n}")
        still = client.get(f"{BASE}/runs/{run['id']}").json()
        assert still["state"] == "running", "it was over before anything could be disturbed"
        cancelled = client.post(f"{BASE}/runs/{run['id']}/cancel").json()
        assert cancelled["state"] == "cancelled"
        assert client.post(f"{BASE}/runs/{run['id']}/cancel").json()["state"] == "cancelled"
        client.post(f"/v2/leases/{lease['lease_id']}/complete", json={"token": lease["token"]})


def frames_of(talk: Talk, topic: str, most: int) -> list[dict[str, Any]]:
    """Frames as they are told, until there are enough."""
    found: list[dict[str, Any]] = []
    while len(found) < most:
        found += talk.hear("snapshot", "delta")["topics"].get(topic, {}).get("frames", [])
    return found


def test_frames_are_streamed_and_played_as_asked(lab: World) -> None:
    with lab.client() as client:
        run = begun(client, policy={"name": "platform"}, workload=upload(), horizon="20m", frames=20)
        ended(client, run)
        path = f"{BASE}/runs/{run['id']}/playback"
        assert client.post(path, json={"playing": False, "seek": 0}).json()["playing"] is False
        with lab.socket(f"/v2/live?topics={run['topic']}") as talk:
            first = frames_of(talk, run["topic"], 1)
            assert [frame["number"] for frame in first] == [1]
            assert (first[0]["seen"][0]["ended"], first[0]["seen"][0]["running"]) == (1, 1)
            talk.say(type="playback", run=run["id"], step=1)
            assert [frame["number"] for frame in frames_of(talk, run["topic"], 1)] == [2]
            talk.say(type="playback", run=run["id"], seek=600)
            (there,) = frames_of(talk, run["topic"], 1)
            assert there["at"] - first[0]["at"] == 540_000
            talk.say(type="playback", run=run["id"], step=-5)
            assert [frame["number"] for frame in frames_of(talk, run["topic"], 1)] == [5]
            talk.say(type="playback", run=run["id"], playing=True, speed=60_000)
            rest = frames_of(talk, run["topic"], 15)
            assert [frame["number"] for frame in rest] == list(range(6, 21))
        assert client.get(f"{BASE}/runs/{run['id']}").json()["playback"]["frame"] == 20


def test_what_cannot_be_played_is_told_on_the_feed(lab: World) -> None:
    with lab.client() as client:
        run = begun(client, policy={"name": "platform"}, workload=upload())
        with lab.socket(f"/v2/live?topics={run['topic']},status") as talk:
            talk.say(type="playback", run="nothing", playing=False)
            assert talk.hear("not-done")["problem"]["code"] == "simulation_not_found"
            talk.say(type="playback", run=run["id"], speed=-1)
            assert talk.hear("not-done")["problem"]["field"] == "speed"
            talk.say(type="playback", run=run["id"], step=1, seek=1)
            assert talk.hear("not-done")["problem"]["field"] == "seek"
        ended(client, run)


def test_what_is_wrong_with_a_policy_or_a_workload_is_said_with_its_line(lab: World) -> None:
    with lab.client() as client:
        broken = {"name": "broken", "source": "local a = 1\nfunction schedule(\n"}
        refused = problem(client.post(BASE, json={"policy": broken}), 400, "invalid_policy")
        assert refused["extra"]["diagnostics"][0]["line"] == 3
        found = problem(
            client.post(BASE, json={"workload": upload(text="nothing at all", format=None)}), 400, "workload_error"
        )
        assert found["field"] == "workload"
        lines = '{"headgate-workload": 1}\n{"id": "a", "at": 0, "run": 1}\n{"id": "b", "at": "soon", "run": 1}\n'
        (good,) = [begun(client, workload=upload(text=lines, format="headgate"))]
        assert ended(client, good)["outcome"]["notes"] == ["job: 1 in the workload (line 3)"]
        lines = '{"headgate-workload": 1}\n\n{"id": "b", "at": "soon", "run": 1}\n'
        none = problem(
            client.post(BASE, json={"workload": upload(text=lines, format="headgate")}), 400, "workload_error"
        )
        assert none["extra"]["line"] == 3
        problem(client.post(BASE, json={"workload": {"kind": "sample", "model": "odd"}}), 400, "invalid_input")
        problem(client.post(BASE, json={"horizon": "soon"}), 400, "invalid_input")
        problem(client.post(BASE, json={"policy": {"name": "nobody"}}), 404, "policy_not_found")
        live = {"workload": {"kind": "live"}, "changes": {"without_pools": ["nowhere"]}}
        assert problem(client.post(BASE, json=live), 400, "invalid_input")["field"] == "pool"
        problem(client.get(f"{BASE}/runs/nothing"), 404, "simulation_not_found")


def test_only_those_who_may_edit_policies_simulate(lab: World) -> None:
    with lab.client(lab.token_for("read")) as client:
        problem(client.get(BASE), 403, "forbidden")
        problem(client.post(BASE, json={}), 403, "forbidden")
    with lab.client(lab.token_for("policy:edit")) as client:
        run = begun(client, workload={"kind": "sample", "jobs": 10})
        ended(client, run)
    with lab.client(lab.token_for("policy:edit", tenant="a")) as client:
        problem(client.post(BASE, json={}), 403, "forbidden")
    for token, topics in ((lab.token_for("read"), run["topic"]), (lab.token_for("policy:edit"), "jobs")):
        with pytest.raises(Exception, match="scope"), lab.socket(f"/v2/live?topics={topics}", token) as talk:
            talk.hear()


def test_size_number_and_time_are_limited(make_world: MakeWorld) -> None:
    world = make_world(policy=PolicyEngine(), simulations=1, simulation_jobs=100, simulation_time=8.0)
    with world.client() as client:
        large = {"kind": "sample", "jobs": 101}
        assert "at most 100" in problem(client.post(BASE, json={"workload": large}), 400, "workload_error")["detail"]
        slow = {"policy": {"name": "slow", "source": SLOW}, "workload": {"kind": "sample", "jobs": 100}}
        run = begun(client, **slow)
        problem(client.post(BASE, json={}), 429, "too_many_simulations")
        found = client.get(f"{BASE}/runs/{run['id']}", params={"wait_s": 30}).json()
        assert (found["state"], found["outcome"]["cut"]) == ("done", True)
        assert found["outcome"]["notes"][0].startswith("it took too long and was cut")
        begun(client, **slow)  # there is room again; the end of the server ends it
