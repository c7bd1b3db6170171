"""The live feed: a snapshot, then numbered deltas, resumed where a client stopped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import MakeWorld
from tests.server.test_jobs import submit
from tests.server.test_leases import claim, register, word
from tests.server.world import Talk

FAST = {"live_interval": 0.01}


def hear_job(talk: Talk, job_id: str, after: int, **wanted: Any) -> int:
    """Listen until a delta tells of the job; numbers rise by one."""
    number = after
    while True:
        delta = talk.hear("delta")
        number += 1
        assert delta["number"] == number
        for job in delta["topics"].get("jobs", {}).get("set", []):
            if job["id"] == job_id and wanted.items() <= job.items():
                return number


def test_a_snapshot_and_then_what_changes(make_world: MakeWorld) -> None:
    world = make_world(**FAST)
    with world.client() as client:
        first = submit(client, name="before", payload="x" * 100)["id"]
        register(client)
        with world.socket("/v2/live") as talk:
            snapshot = talk.hear()
            assert snapshot["type"] == "snapshot"
            topics = snapshot["topics"]
            assert set(topics) == {"status", "jobs", "leases", "workers", "pools", "policy"}
            assert [job["id"] for job in topics["jobs"]["set"]] == [first]
            assert "payload" not in topics["jobs"]["set"][0]
            assert topics["workers"]["set"][0]["id"] == "w"
            second = submit(client, name="after")["id"]
            number = hear_job(talk, second, snapshot["number"], state="queued")
            lease = claim(client)["lease"]
            hear_job(talk, lease["job_id"], number, state="leased")


def test_deltas_never_carry_a_token(make_world: MakeWorld) -> None:
    world = make_world(**FAST)
    with world.client() as client:
        register(client, slots=2)
        submit(client, [{}, {}])
        claim(client)
        with world.socket("/v2/live?topics=leases") as talk:
            (held,) = talk.hear()["topics"]["leases"]["set"]
            assert "token" not in held
            lease = claim(client)["lease"]
            while not (found := talk.hear("delta")["topics"].get("leases", {}).get("set")):
                pass
            assert [told["lease_id"] for told in found] == [lease["lease_id"]]
            assert "token" not in found[0]


def test_a_client_goes_on_where_it_stopped(make_world: MakeWorld) -> None:
    world = make_world(**FAST)
    with world.client() as client:
        with world.socket("/v2/live") as talk:
            number = talk.hear()["number"]
            number = hear_job(talk, submit(client)["id"], number)
        missed = submit(client)["id"]
        with world.socket(f"/v2/live?after={number}") as talk:
            hear_job(talk, missed, number)
        with world.socket("/v2/live?after=1") as talk:
            assert talk.hear()["type"] == "snapshot"


def test_only_the_topics_asked_for_are_told(make_world: MakeWorld) -> None:
    world = make_world(**FAST)
    with world.client() as client, world.socket("/v2/live?topics=workers,status") as talk:
        assert set(talk.hear()["topics"]) == {"workers", "status"}
        register(client)
        told: set[str] = set()
        while "workers" not in told:
            told |= set(talk.hear("delta")["topics"])
        assert told <= {"workers", "status"}


def test_a_tenant_watches_only_its_own(make_world: MakeWorld) -> None:
    world = make_world(**FAST)
    token = world.token_for("read", tenant="a")
    with world.client() as client:
        submit(client, tenant="b")
        own = submit(client, tenant="a")["id"]
        with world.socket("/v2/live", token) as talk:
            snapshot = talk.hear()
            assert [job["id"] for job in snapshot["topics"]["jobs"]["set"]] == [own]
            other, mine = submit(client, tenant="b")["id"], submit(client, tenant="a")["id"]
            seen: set[str] = set()
            while mine not in seen:
                delta = talk.hear("delta")
                seen |= {job["id"] for job in delta["topics"].get("jobs", {}).get("set", [])}
            assert other not in seen


def test_deltas_come_at_most_so_often(make_world: MakeWorld) -> None:
    world = make_world(live_interval=0.2)
    with world.client() as client, world.socket("/v2/live?topics=jobs") as talk:
        talk.hear()
        ids = {submit(client)["id"] for _ in range(5)}
        seen: set[str] = set()
        frames = 0
        while seen != ids:
            delta = talk.hear("delta")
            frames += 1
            seen |= {job["id"] for job in delta["topics"].get("jobs", {}).get("set", [])}
        assert frames < 5


def test_a_job_that_ends_is_told_and_the_feed_goes_on(make_world: MakeWorld) -> None:
    world = make_world(**FAST)
    with world.client() as client, world.socket("/v2/live") as talk:
        register(client)
        number = talk.hear()["number"]
        job_id = submit(client, payload={"x": 1}, attributes={"y": 2})["id"]
        lease = claim(client)["lease"]
        word(client, lease, "start")
        word(client, lease, "complete", result={"z": 3})
        number = hear_job(talk, job_id, number, state="completed")
        hear_job(talk, submit(client)["id"], number, state="queued")


def test_a_bug_in_the_feed_is_said_and_does_not_silence_it(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(**FAST)
    changes = world.app.service.live._changes
    broken = iter([True])

    def once() -> Any:
        if next(broken, False):
            raise RuntimeError("broken once")
        return changes()

    with world.socket("/v2/live") as talk:
        talk.hear("snapshot")
        monkeypatch.setattr(world.app.service.live, "_changes", once)
        talk.hear("snapshot")
    assert "broken once" in caplog.text
