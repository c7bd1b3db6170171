"""Tenant `a` against tenant `b`: whatever a token of the one asks, nothing of the other comes back or moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from headgate.core import events as e
from headgate.server import privacy, tokens
from headgate.server.app import ROUTES
from headgate.wire.http import EventOut
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.server.test_scopes import FOR_TENANTS, name
from tests.server.world import WITHIN, Talk, World

SECRET = "secret-of-b"
SCOPES: tuple[tokens.Scope, ...] = ("submit", "work", "read", "policy:edit", "policy:activate")


class Theirs(NamedTuple):
    """What tenant b has."""

    running: str
    """A job with a lease that has said something of everything."""
    lease: dict[str, Any]
    ended: str
    waiting: str
    external: str


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(core={"lease_ttl": 600_000})


@pytest.fixture
def theirs(world: World) -> Iterator[Theirs]:
    with world.client() as admin:
        register(admin, slots=1)
        mark = {"name": SECRET, "payload": SECRET, "labels": {"x": SECRET}, "attributes": {"x": SECRET}, "tenant": "b"}
        ended = submit(admin, **mark)["id"]
        lease = claim(admin)["lease"]
        word(admin, lease, "start")
        assert word(admin, lease, "complete", result=SECRET, log=SECRET).status_code == 200
        running = submit(admin, **mark, idempotency_key="the-key")["id"]
        lease = claim(admin)["lease"]
        word(admin, lease, "start")
        assert word(admin, lease, "progress", fraction=0.5, note=SECRET, log=SECRET).status_code == 200
        waiting = submit(admin, **mark, dependencies=[running])["id"]
        external = submit(admin, **mark, run={"kind": "external"}, type=SECRET)["id"]
        admin.put("/v2/tenants/b", json={"weight": 7})
        yield Theirs(running, lease, ended, waiting, external)
        job = admin.get(f"/v2/jobs/{running}").json()
        assert (job["state"], job["attempt"]) == ("running", 1), "it was touched"
        assert admin.get(f"/v2/jobs/{waiting}").json()["state"] == "blocked"


def bodies(theirs: Theirs) -> list[dict[str, Any]]:
    """What an attacker would send."""
    token = {"token": theirs.lease["token"]}
    return [
        {},
        token,
        {**token, "result": 1},
        {**token, "error": {"code": "x", "message": "x"}},
        {"worker_id": "w", "job_id": theirs.running},
        {"worker_id": "w", "job_id": theirs.external},
        {"dependencies": [theirs.waiting]},
        {"dependencies": [theirs.ended]},
        {"rank": 1},
        {"tenant": "b"},
        {"reason": "x"},
    ]


def attempts(path: str, theirs: Theirs) -> list[str]:
    """A path with every name of the other's in its place."""
    jobs = (theirs.running, theirs.ended, theirs.waiting, theirs.external)
    subject = path.split("/")[2] if "{id}" in path else ""
    names = {"leases": (theirs.lease["lease_id"],), "workers": ("w",), "tenants": ("b",), "pools": ("default",)}
    return [path.replace("{id}", each) for each in names.get(subject, jobs)] if subject else [path]


def check(answer: httpx.Response, theirs: Theirs, asked: str) -> None:
    assert answer.status_code < 500 or answer.status_code == 503, asked
    assert SECRET not in answer.text, asked
    for id_ in (theirs.running, theirs.ended, theirs.waiting, theirs.external, f'"{theirs.lease["lease_id"]}"'):
        assert id_ not in answer.text or id_.strip('"') in asked, asked


def test_no_call_tells_a_tenant_of_another_or_touches_what_is_its(world: World, theirs: Theirs) -> None:
    """Every call of the table, with everything of the other's in the path, the query and the body."""
    with world.client(world.token_for(*SCOPES, tenant="a")) as mine:
        for route in ROUTES:
            if route.method == "WS":
                continue
            for path in attempts(route.path, theirs):
                if route.method == "GET":
                    asked = [{}, *([{"tenant": "b"}, {"name": SECRET}, {"type": SECRET}] if path == "/v2/jobs" else [])]
                    for query in asked:
                        check(mine.get(path, params=query), theirs, f"{path} {query}")
                    continue
                for body in bodies(theirs) if name(route) in FOR_TENANTS else [{}]:
                    answer = mine.request(route.method, path, json=body)
                    check(answer, theirs, f"{name(route)} {path} {body}")


def test_a_key_of_one_tenant_means_nothing_to_another(world: World, theirs: Theirs) -> None:
    with world.client(world.token_for(*SCOPES, tenant="a")) as mine:
        for body in ({"idempotency_key": "the-key"}, [{"idempotency_key": "other"}]):
            made = mine.post("/v2/jobs", json=body).json()
            assert made["created"] == [True]
            assert theirs.running not in made["ids"]
        again = mine.post("/v2/jobs", json={}, headers={"Idempotency-Key": "the-key"}).json()
        assert again["created"] == [False]
        assert theirs.running not in again["ids"]


def test_a_lease_is_spoken_for_only_by_workers(world: World, theirs: Theirs) -> None:
    """The numbers that fence leases can be guessed: a token that only submits cannot use one that is a worker's."""
    for token in (world.token_for("submit"), world.token_for("submit", "work", tenant="b")):
        with world.client(token) as client:
            for verb in ("start", "heartbeat", "progress", "complete", "fail", "release"):
                fields = {"error": {"code": "x"}} if verb == "fail" else {}
                problem(word(client, theirs.lease, verb, **fields), 403, "forbidden")
    with world.client(world.token_for("work", "read", tenant="b")) as bound:
        shown = {lease["job_id"]: lease["token"] for lease in bound.get("/v2/leases").json()["leases"]}
        assert shown[theirs.running] == 0


def test_on_its_stream_a_worker_speaks_for_itself_alone(world: World, theirs: Theirs) -> None:
    with world.client() as admin:
        register(admin, "other", pull=False)
    lease_id, token = theirs.lease["lease_id"], theirs.lease["token"]
    with world.socket("/v2/workers/other/stream", world.token_for("work")) as talk:
        words = [{"verb": "complete", "lease_id": lease_id, "token": token, "result": 1}]
        talk.say(type="words", ref=1, words=words)
        (found,) = talk.hear("words-done")["problems"]
        assert found["code"] == "stale_lease"
        talk.say(type="beats", ref=2, leases=[[lease_id, token]])
        (beat,) = talk.hear("beats-done")["beats"]
        assert (beat["lease_id"], beat["stale"]) == (lease_id, True)


# -- watching -----------------------------------------------------------------------------------------------------


def hear_until(talk: Talk, *wanted: str) -> str:
    """Everything that is told until all of it was."""
    told = ""
    while not all(each in told for each in wanted):
        told += str(talk.connection.recv(timeout=WITHIN))
    return told


def test_a_tenant_who_watches_hears_nothing_of_others(make_world: MakeWorld) -> None:
    world = make_world(live_interval=0.01)
    with world.client() as admin:
        register(admin, slots=2)
        before = submit(admin, tenant="b", name=SECRET)["id"]
        held = claim(admin)["lease"]
        with world.socket("/v2/live", world.token_for("read", tenant="a")) as talk:
            told = hear_until(talk, "snapshot")
            during = submit(admin, tenant="b", name=SECRET)["id"]
            second = claim(admin)["lease"]
            for lease in (held, second):
                word(admin, lease, "start")
                word(admin, lease, "complete", result=SECRET)
            own = submit(admin, tenant="a")["id"]
            mine = claim(admin)["lease"]
            word(admin, mine, "start")
            told += hear_until(talk, own, f'"lease_id":"{mine["lease_id"]}"')
            word(admin, mine, "complete")
            told += hear_until(talk, f'"gone":["{mine["lease_id"]}"]')
    for hidden in (SECRET, before, during, f'"{held["lease_id"]}"', f'"{second["lease_id"]}"', "_of"):
        assert hidden not in told, hidden


def test_a_tenant_is_told_how_many_of_its_own_jobs_were_left_out(make_world: MakeWorld) -> None:
    world = make_world(live_interval=3_600)
    live = world.app.service.live
    with world.client() as admin, world.socket("/v2/live?topics=jobs", world.token_for("read", tenant="a")) as talk:
        talk.hear("snapshot")
        submit(admin, [{"tenant": "a"}] * 3 + [{"tenant": "b"}] * 600 + [{"tenant": "a"}] * 2)

        async def frame() -> None:
            live.make_frame()

        world.run(frame())
        jobs = talk.hear("delta")["topics"]["jobs"]
        assert (len(jobs["set"]), jobs["more"]) == (2, 3)


def test_what_a_policy_said_when_it_fell_is_not_told_to_tenants() -> None:
    tripped = {"at": 1, "version": "v", "kind": "error", "message": SECRET, "traceback": SECRET, "decision": "1-1"}
    bound, free = (tokens.Caller("x", frozenset({"read"}), tenant) for tenant in ("a", None))
    assert privacy.policy_for(free, {"tripped": tripped})["tripped"] == tripped
    shown = privacy.policy_for(bound, {"active": "v", "tripped": tripped})
    assert SECRET not in str(shown)
    assert shown["tripped"]["kind"] == "error"


def test_a_job_that_makes_room_for_another_tenants_is_told_so_and_not_for_which(make_world: MakeWorld) -> None:
    """Preemption ties two tenants together: neither reads the id of the other's job."""
    world = make_world(core={"total_units": 10, "preemption": True})
    with world.client() as admin:
        register(admin, slots=2)
        victim = submit(admin, tenant="a", priority="background", units=10, checkpointable=True)["id"]
        word(admin, claim(admin)["lease"], "start")
        asker = submit(admin, tenant="b", priority="high", units=10)["id"]
        state = world.read(lambda state: state)
        event = EventOut(1, 0.0, str(e.PreemptionAsked.__struct_config__.tag), {"for_job": asker})
        bound = tokens.Caller("x", frozenset({"read"}), "a")
        assert asker not in str(privacy.event_for(bound, state, event))
        assert asker in str(privacy.event_for(tokens.Caller("x", frozenset({"read"}), "b"), state, event))
        assert asker in str(privacy.event_for(tokens.LOCAL, state, event))
        with world.client(world.token_for("read", tenant="b")) as other:
            assert victim not in other.get(f"/v2/jobs/{asker}/explain").text


def test_every_call_that_a_tenant_may_make_was_tried() -> None:
    assert {name(route) for route in ROUTES} >= FOR_TENANTS
