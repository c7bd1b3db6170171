"""How long a lease that was pushed is known to hold: counted from the last message that the server had heard."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from headgate.client.http import Http
from headgate.system import SystemChance
from headgate.testing import ManualClock
from headgate.wire import stream as m
from headgate.wire.http import WorkerIn
from headgate.worker.assignment import Assignment
from headgate.worker.link import LinkDown
from headgate.worker.stream_link import StreamLink, _decode
from tests.server.test_jobs import submit
from tests.server.world import World

TTL = 30_000


class Place:
    """A worker's link to a server, with a clock of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = ManualClock(1_000)
        self.http = Http(world.url, world.token, SystemChance())
        self.link = StreamLink(self.http, "w", self.clock, SystemChance().uniform)

    def next(self) -> Assignment:
        with self.world.client() as client:
            submit(client)
        (found,) = self.link.turn([], [], [], wants=True, within=20.0).grants
        return found


@pytest.fixture
def place(quick: Path) -> Iterator[Place]:
    world = World(quick).start()
    place = Place(world)
    place.link.register(WorkerIn("w", slots=10))
    yield place
    place.link.close()
    place.http.close()
    world.stop()


def left(work: Assignment, since: int) -> bool:
    """Whether it is known to hold for nearly its whole time from then on, and no longer than that."""
    assert work.sure_until is not None
    return since + TTL - 10_000 < work.sure_until <= since + TTL


def test_a_lease_is_sure_from_the_opening_of_the_connection_on(place: Place) -> None:
    assert left(place.next(), since=1_000)


def test_a_worker_that_slept_counts_from_before_its_sleep(place: Place) -> None:
    place.clock.jump_to(500_000)
    assert left(place.next(), since=1_000)


def test_a_worker_that_was_removed_while_it_lives_comes_back(place: Place) -> None:
    with place.world.client() as client:
        assert client.delete("/v2/workers/w").status_code == 204
    with pytest.raises(LinkDown):
        place.link.beat([])
    assert place.next().job_id


def test_a_worker_that_has_left_does_not_come_back(place: Place) -> None:
    place.link.leave()
    with pytest.raises(LinkDown):
        place.link.beat([])
    place.link.close()
    with place.world.client() as client:
        assert client.get("/v2/workers").json()["workers"] == []


def test_every_message_that_the_server_heard_moves_the_count_on(place: Place) -> None:
    for now in (10_000, 20_000, 300_000):
        place.clock.jump_to(now)
        place.link.beat([])
        place.clock.jump_to(now + 5_000)
        assert left(place.next(), since=now)


def test_one_who_waits_for_leases_hears_the_answers_of_all_the_others(place: Place) -> None:
    with ThreadPoolExecutor(5) as pool:
        waiting = pool.submit(place.link.turn, [], [], [], wants=True, within=20.0)
        asked = [pool.submit(place.link.beat, []) for _ in range(40)]
        assert all(answer.result(20.0) == [] for answer in asked)
        with place.world.client() as client:
            submit(client)
        (found,) = waiting.result(20.0).grants
        assert found.job_id


def test_who_asks_takes_in_the_leases_that_come_before_the_answer(place: Place) -> None:
    with place.world.client() as client:
        submit(client)
    place.world.wait_for(lambda state: state.leases)
    place.link.beat([])
    assert len(place.link.turn([], [], [], wants=True, within=0.0).grants) == 1


def test_the_wait_for_leases_ends_with_the_drain(place: Place) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(place.link.turn, [], [], [], wants=True, within=20.0)
        place.link.drain()
        assert waiting.result(20.0).draining


def test_the_wait_for_leases_ends_when_the_link_is_closed(place: Place) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(place.link.turn, [], [], [], wants=True, within=20.0)
        place.link.close()
        assert waiting.result(20.0).grants == ()


def test_the_end_of_the_stream_is_noticed_while_nobody_waits(place: Place) -> None:
    socket = place.link._socket
    assert socket is not None
    place.link.beat([])  # whoever answers is there to be stopped
    place.world.run(place.world.app.service.deliveries.stop())
    while place.link._socket is socket:
        place.link._look()
    assert place.next().job_id, "it was made anew"


def test_a_worker_that_is_evicted_hears_why(place: Place) -> None:
    with place.world.client() as client:
        client.post("/v2/workers/w/evict", json={"reason": "it burns"})
    place.link.beat([])  # the answer comes after it
    assert place.link.turn([], [], [], wants=True, within=0.0).leave == "it burns"


@pytest.mark.parametrize("kind", get_args(m.ServerMessage))
def test_a_worker_understands_every_kind_of_message_that_a_server_sends(kind: type[msgspec.Struct]) -> None:
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    samples = {"ref": 1, "lease_id": "1-1", "reason": "so", "leases": [], "jobs": [], "problems": [], "beats": []}
    message = kind(**{name: samples[name] for name in required})
    assert _decode(msgspec.json.encode(message))
