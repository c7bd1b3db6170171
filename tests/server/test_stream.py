"""The fast path of workers: leases pushed, words and heartbeats batched, nothing lost between two connections."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from headgate import views
from headgate.server.stream import MOST_ASKED
from tests.server.conftest import MakeWorld
from tests.server.test_jobs import problem, submit
from tests.server.test_leases import claim, register, word
from tests.server.world import Talk, World

PATH = "/v2/workers/w/stream"


def words(lease: dict[str, Any], *verbs: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"lease_id": lease["lease_id"], "token": lease["token"], "verb": verb, **fields} for verb in verbs]


def test_leases_are_pushed_and_words_come_in_batches(world: World) -> None:
    with world.client() as client:
        register(client, slots=3, pull=False)
        with world.socket(PATH) as talk:
            ids = submit(client, [{"payload": n} for n in range(3)])["ids"]
            leases: list[dict[str, Any]] = []
            while len(leases) < 3:
                granted = talk.hear("granted")
                leases += granted["leases"]
                assert [job["id"] for job in granted["jobs"]] == [lease["job_id"] for lease in granted["leases"]]
            assert [lease["job_id"] for lease in leases] == ids
            said = [word for lease in leases for word in words(lease, "start", "complete", result=1, log="x")]
            talk.say(type="words", ref=1, words=said)
            assert talk.hear("words-done") == {"type": "words-done", "ref": 1, "problems": [None] * 6}
            assert {job["state"] for job in client.get("/v2/jobs").json()["jobs"]} == {"completed"}
            assert client.get(f"/v2/jobs/{ids[0]}/logs").json()["logs"][0]["text"] == "x"


def test_one_bad_word_spoils_nothing_for_the_others(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            submit(client)
            (lease,) = talk.hear("granted")["leases"]
            said = words(lease, "start", "dance", "fail", "complete", "complete", "progress")
            talk.say(type="words", ref=7, words=said)
            done = talk.hear("words-done")
            codes = [None if found is None else found["code"] for found in done["problems"]]
            assert codes == [None, "invalid_input", "invalid_input", None, None, "stale_lease"]


def test_heartbeats_renew_and_say_what_is_stale(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            submit(client)
            (lease,) = talk.hear("granted")["leases"]
            talk.say(type="beats", ref=2, leases=[[lease["lease_id"], lease["token"]], ["9-9", 1]])
            done = talk.hear("beats-done")
            assert done["ref"] == 2
            assert done["beats"][0]["expires_at"] >= lease["expires_at"]
            assert done["beats"][1]["stale"] is True
            talk.say(type="beats", ref=3)
            assert talk.hear("beats-done")["beats"] == []


def test_a_push_says_what_was_heard_before_it(world: World) -> None:
    with world.client() as client:
        register(client, slots=2, pull=False)
        with world.socket(PATH) as talk:
            submit(client)
            first = talk.hear("granted")
            assert "heard" not in first, "nothing was said on this connection yet"
            assert first["leases"][0]["granted_at"] <= first["now"] <= first["leases"][0]["expires_at"]
            for ref in (7, 4):
                talk.say(type="beats", ref=ref)
                talk.hear("beats-done")
            submit(client)
            assert talk.hear("granted")["heard"] == 7


def test_what_was_never_started_is_delivered_again(world: World) -> None:
    with world.client() as client:
        register(client, slots=2, pull=False)
        with world.socket(PATH) as talk:
            submit(client)
            (first,) = talk.hear("granted")["leases"]
            submit(client)
            (second,) = talk.hear("granted")["leases"]
            talk.say(type="words", ref=1, words=words(first, "start"))
            talk.hear("words-done")
        with world.socket(PATH) as talk:
            (again,) = talk.hear("granted")["leases"]
            assert again["lease_id"] == second["lease_id"]
            assert again["token"] == second["token"]


def test_what_was_granted_before_the_stream_came_is_delivered(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        job_id = submit(client)["id"]
        world.wait_for(lambda state: state.leases)
        with world.socket(PATH) as talk:
            assert talk.hear("granted")["jobs"][0]["id"] == job_id


def test_nothing_is_granted_to_a_worker_that_has_hung_up(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH):
            pass
        world.wait_for(lambda state: state.workers["w"].spec.pull)
        submit(client)
        assert world.read(lambda state: len(state.leases)) == 0
        with world.socket(PATH) as talk:
            assert len(talk.hear("granted")["leases"]) == 1


def test_a_worker_that_lost_its_stream_can_poll(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH):
            pass
        world.wait_for(lambda state: state.workers["w"].spec.pull)
        submit(client)
        assert client.post("/v2/leases", json={"worker_id": "w"}).status_code == 201


def test_a_cancelled_job_is_stopped(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            job_id = submit(client)["id"]
            (lease,) = talk.hear("granted")["leases"]
            talk.say(type="words", ref=1, words=words(lease, "start"))
            client.post(f"/v2/jobs/{job_id}/cancel")
            stop = talk.hear("stop")
            assert (stop["lease_id"], stop["reason"]) == (lease["lease_id"], "cancelled")


def test_a_lease_that_expired_is_stopped(make_world: MakeWorld) -> None:
    world = make_world(core={"lease_ttl": 50})
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            submit(client)
            (lease,) = talk.hear("granted")["leases"]
            assert talk.hear("stop") == {"type": "stop", "lease_id": lease["lease_id"], "reason": "expired"}


def test_a_job_that_runs_too_long_is_stopped(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            submit(client, timeout=0.05)
            (lease,) = talk.hear("granted")["leases"]
            talk.say(type="words", ref=1, words=words(lease, "start"))
            assert talk.hear("stop")["reason"] == "timeout"


def test_a_preempted_job_is_asked_to_let_go(make_world: MakeWorld) -> None:
    world = make_world(core={"total_units": 10, "preemption_grace": 60_000})
    with world.client() as client:
        register(client, slots=2, pull=False)
        with world.socket(PATH) as talk:
            submit(client, units=10, priority="low", checkpointable=True)
            (lease,) = talk.hear("granted")["leases"]
            talk.say(type="words", ref=1, words=words(lease, "start"))
            talk.hear("words-done")
            urgent = submit(client, units=10, priority="high")["id"]
            stop = talk.hear("stop")
            assert (stop["lease_id"], stop["reason"]) == (lease["lease_id"], "preempted")
            assert stop["let_go_by"] > lease["granted_at"]
            talk.say(type="words", ref=2, words=words(lease, "release"))
            assert talk.hear("granted")["jobs"][0]["id"] == urgent


def test_the_lease_for_which_a_word_made_room_comes_before_the_answer(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            submit(client, [{"payload": n} for n in range(2)])
            (lease,) = talk.hear("granted")["leases"]
            talk.say(type="words", ref=1, words=words(lease, "start", "complete"))
            assert [talk.hear()["type"] for _ in range(2)] == ["granted", "words-done"]


def test_a_worker_may_say_more_than_is_carried_out_at_once(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            refs = list(range(1, 3 * MOST_ASKED))
            for ref in refs:
                talk.say(type="beats", ref=ref)
            assert [talk.hear("beats-done")["ref"] for _ in refs] == refs


def test_a_worker_that_does_not_read_is_cut_off_and_its_leases_come_again(make_world: MakeWorld) -> None:
    world = make_world(write_timeout=0.3)
    with world.client() as client:
        register(client, slots=100, pull=False)
        with world.socket(PATH, max_queue=1, max_size=None) as talk:
            for ref in range(1, 9):  # more than the client takes in while nobody listens: from then on it does not read
                talk.say(type="beats", ref=ref)
            submit(client, [{"payload": "x" * 100_000} for _ in range(100)])
            world.wait_for(lambda state: len(state.leases) == 100)
            world.wait_for(lambda state: state.workers["w"].spec.pull)  # that is: its stream has ended
            with pytest.raises(ConnectionClosed):
                _hear_all(talk)
        with world.socket(PATH, max_size=None) as talk:
            found: set[str] = set()
            while len(found) < 100:
                found |= {lease["lease_id"] for lease in talk.hear("granted")["leases"]}


def _hear_all(talk: Talk) -> None:
    while True:
        talk.hear()


def test_a_bug_in_a_stream_ends_that_stream_and_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a bug")

    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            monkeypatch.setattr(views, "lease_out", broken)
            job_id = submit(client)["id"]
            with pytest.raises(ConnectionClosed) as closed:
                talk.hear()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011
        monkeypatch.undo()
        with world.socket(PATH) as talk:
            assert talk.hear("granted")["jobs"][0]["id"] == job_id


def test_a_draining_worker_says_so(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            talk.say(type="drain", ref=5)
            assert talk.hear("words-done") == {"type": "words-done", "ref": 5, "problems": [None]}
            assert client.get("/v2/workers/w").json()["status"] == "draining"


def test_a_worker_that_is_evicted_is_told_at_once_and_again_when_it_comes_back(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            submit(client)
            (lease,) = talk.hear("granted")["leases"]
            talk.say(type="words", ref=1, words=words(lease, "start"))
            talk.hear("words-done")
            assert client.post("/v2/workers/w/evict", json={"reason": "it burns"}).json()["status"] == "draining"
            assert talk.hear("leave") == {"type": "leave", "reason": "it burns"}
        with world.socket(PATH) as talk:
            assert talk.hear("leave")["reason"] == "it burns"
            talk.say(type="words", ref=1, words=words(lease, "release"))
            assert talk.hear("words-done")["problems"] == [None]
            client.post("/v2/workers/w/undrain")
        with world.socket(PATH) as talk:
            assert talk.hear("granted")["leases"][0]["job_id"] == lease["job_id"]


def test_a_worker_that_polls_hears_of_its_eviction_with_its_heartbeat(world: World) -> None:
    with world.client() as client:
        register(client)
        submit(client)
        lease = claim(client)["lease"]
        assert "let_go_by" not in word(client, lease, "heartbeat").json()
        client.post("/v2/workers/w/evict")
        assert word(client, lease, "heartbeat").json()["let_go_by"] > lease["granted_at"]


def test_only_an_administrator_evicts(world: World) -> None:
    with world.client() as client:
        register(client)
        token = client.post("/v2/admin/tokens", json={"scopes": ["work"]}).json()["token"]
        problem(client.post("/v2/workers/nobody/evict"), 404, "worker_not_found")
    with world.client(token) as client:
        problem(client.post("/v2/workers/w/evict"), 403, "forbidden")


def test_the_newest_stream_of_a_worker_is_the_one(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as old, world.socket(PATH) as new:
            with pytest.raises(ConnectionClosed) as closed:
                old.hear()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4409
            submit(client)
            assert len(new.hear("granted")["leases"]) == 1


@pytest.mark.parametrize(
    "frame", ["", "{", '{"type":"dance"}', '{"type":"words"}', "[1]", '{"type":"beats","ref":NaN}', "[" * 100_000]
)
def test_a_message_that_makes_no_sense_ends_the_stream(world: World, frame: str) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            talk.connection.send(frame)
            with pytest.raises(ConnectionClosed) as closed:
                talk.hear()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4400


def test_a_worker_that_is_not_registered_has_no_stream(world: World) -> None:
    with world.socket("/v2/workers/nobody/stream") as talk:
        with pytest.raises(ConnectionClosed) as closed:
            talk.hear()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404


def test_a_worker_that_was_removed_is_hung_up_on_when_it_is_next_heard(world: World) -> None:
    with world.client() as client:
        register(client, pull=False)
        with world.socket(PATH) as talk:
            assert client.delete("/v2/workers/w").status_code == 204
            talk.say(type="beats", ref=1)
            with pytest.raises(ConnectionClosed) as ended:
                talk.hear("beats-done")
    assert ended.value.rcvd is not None
    assert ended.value.rcvd.code == 4404


def test_a_stream_ends_when_the_server_goes_down(make_world: MakeWorld) -> None:
    world = make_world()
    with world.client() as client:
        register(client, pull=False)
    with world.socket(PATH) as talk:
        world.stop()
        with pytest.raises(ConnectionClosed):
            talk.hear()
